#include "tests/gpu/KernelCase.h"

#include "runtime/base/Json.h"

#include <fstream>
#include <set>
#include <stdexcept>

namespace stow {

namespace {

std::set<size_t> writtenPlaces(const KernelCase &kernelCase) {
  return {kernelCase.arguments.begin() + static_cast<std::ptrdiff_t>(kernelCase.results),
          kernelCase.arguments.end()};
}

} // namespace

void writeCase(const KernelCase &kernelCase, const std::filesystem::path &file) {
  Json places = Json::array();
  for (const KernelCase::Place &place : kernelCase.places)
    places.push_back({{"bytes", place.before.size()}, {"type", place.type}});
  const Json header = {{"module", kernelCase.module},
                       {"kernel", kernelCase.kernel},
                       {"begin", kernelCase.begin},
                       {"end", kernelCase.end},
                       {"blocks", kernelCase.blocks},
                       {"threads", kernelCase.threads},
                       {"shared", kernelCase.sharedBytes},
                       {"results", kernelCase.results},
                       {"places", places},
                       {"arguments", kernelCase.arguments}};
  std::ofstream out(file, std::ios::binary);
  out << dumpJson(header, -1) << '\n';
  auto put = [&](const std::vector<char> &bytes) {
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  for (const KernelCase::Place &place : kernelCase.places)
    put(place.before);
  for (size_t number : writtenPlaces(kernelCase))
    put(kernelCase.places.at(number).after);
  if (!out.flush())
    throw std::runtime_error("cannot write " + file.string());
}

KernelCase readCase(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  if (!std::getline(in, line))
    throw std::runtime_error("cannot read " + file.string());
  const Json json = parseJson(line, file.string());
  const JsonNode header(json, file.string());
  KernelCase read;
  read.module = header.text("module"), read.kernel = header.text("kernel");
  read.begin = header.integer("begin"), read.end = header.integer("end");
  read.blocks = static_cast<unsigned>(header.count("blocks"));
  read.threads = static_cast<unsigned>(header.count("threads"));
  read.sharedBytes = static_cast<unsigned>(header.count("shared"));
  read.results = static_cast<size_t>(header.count("results"));
  read.arguments = json.at("arguments").get<std::vector<size_t>>();
  auto take = [&](size_t count) {
    std::vector<char> bytes(count);
    if (!in.read(bytes.data(), static_cast<std::streamsize>(count)))
      throw std::runtime_error(file.string() + " ends early");
    return bytes;
  };
  const JsonNode places = header.at("places");
  for (size_t i = 0; i < places.size(); ++i) {
    const JsonNode place = places.element(i);
    read.places.push_back(
        {place.text("type"), take(static_cast<size_t>(place.count("bytes"))), {}});
  }
  for (size_t number : writtenPlaces(read))
    read.places.at(number).after = take(read.places.at(number).before.size());
  return read;
}

} // namespace stow
