#include "compiler/ProgramCosts.h"

#include "codegen/Measured.h"
#include "compiler/StepKernels.h"
#include "ir/Sharing.h"
#include "ir/Stow.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/KernelNumber.h"
#include "passes/memory/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Json.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace mlir;

namespace stow {
namespace {

/// Whether another plan of the same step may have no command that computes just this: it may lie inside of another value,
/// be made of two ops that come apart, or be small and joined with others, as a budget decides.
bool mayBeRegrouped(Operation *op) {
  return isa<MapOp, MatmulOp, ProductMapOp, Conv2dMapOp>(op) ||
         llvm::any_of(sharingsOf(op), [](const Sharing &sharing) {
           return sharing.kind == SharingKind::PartOfResult ||
                  sharing.kind == SharingKind::PartOfOperand || sharing.kind == SharingKind::View;
         });
}

/// How much longer the way that a command ran in takes than the fastest of the op's.
double slowdownOf(Operation *op, const std::string &implementation) {
  for (const auto &way : implementationsOf(op))
    if (absl::StartsWith(implementation, way.name))
      return way.slowdown;
  return 1;
}

} // namespace

ProgramCosts ProgramCosts::load(const std::string &path, const std::string &target) {
  if (!std::filesystem::exists(path))
    throw Error::badInput("cannot read profile \"" + path +
                          "\"; ./model train --data=FILE --profile=" + path +
                          " writes it where the GPU is");
  const std::string what = "profile \"" + path + "\"";
  const Json json = parseJson(readInputFile(path), "profile " + path);
  const bool hasSeveral = json.is_object() && json.contains("graphs") && json["graphs"].is_array();
  const Json graphs = hasSeveral ? json["graphs"] : Json::array({json});
  ProgramCosts costs;
  costs.path = path;
  for (const Json &graph : graphs) {
    if (!graph.is_object() || !graph.contains("graph") || !graph.contains("commands"))
      throw Error::badInput(what + " is no profile; expected JSON as ./model train --profile=FILE "
                                   "writes it without --profile-format");
    const JsonNode node(graph, "profile " + path);
    if (!node.has("device"))
      throw Error::badInput(what + " was measured on a processor, and the plan is for " + target +
                            "; --profile takes what ./model train --profile=FILE wrote there");
    costs.device = node.text("device");
    if (const std::string why = whyNotMeasuredOn(target, costs.device); !why.empty())
      throw Error::badInput(what + " " + why + "; measure there, or name that GPU in --target");
    if (node.count("steps") == 0)
      throw Error::badInput(what + " has no step after those to warm up; raise --steps");
    node.forEach("commands", [&](const JsonNode &command) {
      if (!command.has("kernels"))
        return;
      MeasuredCommand read{command.counts("kernels"), "", 1e6 * command.number("least_ms")};
      if (read.nanoseconds < 0)
        command.fail("least_ms", "must not be below zero");
      if (command.has("implementation"))
        read.implementation = command.text("implementation");
      costs.commands.push_back(std::move(read));
    });
  }
  if (costs.commands.empty())
    throw Error::badInput(what +
                          " has no times of a training step; expected what ./model train "
                          "--profile=FILE writes, of a program for " +
                          target);
  return costs;
}

void ProgramCosts::annotate(ModuleOp prepared, const CostModel &sheet) {
  auto refuse = [&](Operation *op) {
    throw Error::badInput("profile \"" + path + "\" has no time of " +
                          op->getName().stripDialect().str() + " of node \"" +
                          sourceNameOf(op->getLoc()) +
                          "\": it is of another model, batch, precision or compiler; compile "
                          "this one, and measure it with ./model train --profile=FILE");
  };
  llvm::DenseMap<int64_t, Operation *> known; // one of those that are the same
  auto numberOf = [](Operation *op) {
    return op->getAttrOfType<IntegerAttr>(kKernelAttr).getInt();
  };
  SmallVector<Operation *> launches = launchesOf(prepared);
  const size_t all = launches.size();
  llvm::erase_if(launches, [](Operation *op) { return !op->hasAttr(kKernelAttr); }); // added since
  for (Operation *op : launches)
    known.try_emplace(numberOf(op), op);
  struct Sum {
    double nanoseconds = 0;
    int64_t runs = 0;
  };
  llvm::DenseMap<int64_t, Sum> sums;
  for (const MeasuredCommand &command : commands) {
    double whole = 0;
    if (!llvm::all_of(command.kernels, [&](int64_t kernel) { return known.contains(kernel); }))
      continue; // part of it belongs to ops that are grouped otherwise here
    for (int64_t kernel : command.kernels)
      whole += static_cast<double>(sheet.costOf(known.lookup(kernel), 0));
    for (int64_t kernel : command.kernels) {
      Operation *op = known.lookup(kernel);
      Sum &sum = sums[kernel];
      sum.nanoseconds += command.nanoseconds * static_cast<double>(sheet.costOf(op, 0)) / whole /
                         slowdownOf(op, command.implementation);
      ++sum.runs;
    }
  }
  size_t without = all - launches.size();
  double measuredTime = 0, wholeTime = 0; // by the sheet
  Operation *missing = nullptr; // of another step, or what takes longest of what has no time
  Builder builder(prepared.getContext());
  for (Operation *op : launches) {
    const schedule::Cost bySheet = sheet.costOf(op, 0);
    const Sum sum = sums.lookup(numberOf(op));
    wholeTime += static_cast<double>(bySheet);
    if (sum.runs > 0) {
      measuredTime += static_cast<double>(bySheet);
      continue;
    }
    ++without;
    if (!missing ||
        (mayBeRegrouped(missing) && (!mayBeRegrouped(op) || bySheet > sheet.costOf(missing, 0))))
      missing = op;
  }
  if (missing && (!mayBeRegrouped(missing) || 2 * measuredTime < wholeTime))
    refuse(missing);
  for (Operation *op : launches)
    if (const Sum sum = sums.lookup(numberOf(op)); sum.runs > 0)
      op->setAttr(kCostAttr,
                  builder.getI64IntegerAttr(std::max<schedule::Cost>(
                      1, std::llround(sum.nanoseconds / static_cast<double>(sum.runs)))));
  unmeasured = without == 0 ? ""
                            : absl::StrCat(", ", without, " of ", all,
                                           " kernels by the data sheet of ", sheet.device);
}

std::string ProgramCosts::describe() const { return "measured on " + device + unmeasured; }

} // namespace stow
