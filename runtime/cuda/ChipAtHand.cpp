#include "runtime/cuda/ChipAtHand.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/ConvolutionPlan.h"

#include <optional>

namespace stow::cuda {
namespace {

/// The chips of "cuda:a100,h100".
std::vector<std::string> chipsOf(const std::string &target) {
  std::vector<std::string> chips;
  for (size_t at = target.find(':'); at != std::string::npos;) {
    const size_t comma = target.find(',', at + 1);
    chips.push_back(target.substr(at + 1, comma - at - 1));
    at = comma;
  }
  return chips;
}

/// "NVIDIA GeForce RTX 4090" as "nvidiageforcertx4090".
std::string plain(std::string_view name) {
  std::string text;
  for (char c : name)
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
      text += c;
    else if (c >= 'A' && c <= 'Z')
      text += static_cast<char>(c - 'A' + 'a');
  return text;
}

/// The engines of the first convolution that was planned for several chips; empty where none was.
std::vector<ChipEngine> plannedEngines(const Program &program) {
  for (const GraphProgram &graph : program.graphs)
    for (const Command &command : graph.commands)
      if (isConvolution(command))
        if (std::vector<ChipEngine> engines = enginesOf(command); engines.size() > 1)
          return engines;
  return {};
}

std::string versionText(uint32_t architecture) {
  return concat(architecture / 10, ".", architecture % 10);
}

} // namespace

size_t chipAtHand(const Program &program, std::string_view deviceName, uint32_t architecture) {
  const std::vector<ChipEngine> planned = plannedEngines(program);
  if (planned.empty())
    return 0;
  const std::vector<std::string> chips = chipsOf(program.target);
  if (chips.size() != planned.size())
    throw Error::badInput(concat("the program is for ", program.target, " and has engines for ",
                                 planned.size(), " chips; compile the model again"));
  std::optional<size_t> first;
  std::string known;
  for (size_t i = 0; i < chips.size(); ++i) {
    append(known, i == 0 ? "" : ", ", chips[i], " (", versionText(planned[i].architecture), ")");
    if (planned[i].architecture != architecture)
      continue;
    if (plain(deviceName).find(chips[i]) != std::string::npos)
      return i;
    first = first.value_or(i);
  }
  if (!first)
    throw Error::badInput(concat("the program's convolutions are planned for ", known,
                                 ", and the GPU is ", deviceName, " of compute capability ",
                                 versionText(architecture),
                                 "; compile the model with its chip in --target as well, or "
                                 "run it on one of these"));
  return *first;
}

} // namespace stow::cuda
