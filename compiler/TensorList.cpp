#include "compiler/TensorList.h"

#include "ir/Graphs.h"
#include "ir/StowShapeOps.h"
#include "runtime/base/Text.h"
#include "runtime/format/PlanReport.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

const char *nameOf(ImportedTensor::Kind kind) {
  switch (kind) {
  case ImportedTensor::Kind::Trained:
    return "trained";
  case ImportedTensor::Kind::Frozen:
    return "frozen";
  case ImportedTensor::Kind::Statistic:
    return "statistic";
  case ImportedTensor::Kind::Constant:
    return "constant";
  case ImportedTensor::Kind::Unused:
    break;
  }
  return "unused";
}

std::string shapeOf(const ImportedTensor &tensor) {
  return tensor.kind == ImportedTensor::Kind::Unused ? "-" : shapeText(tensor.shape);
}

/// Weights that the rules miss would stay as they are: they are named.
std::string describeUnreached(const std::vector<std::string> &unreached) {
  constexpr size_t kNames = 8;
  if (unreached.empty())
    return "";
  const size_t shown = std::min(unreached.size(), kNames);
  return absl::StrCat(
      "; constant, since no rule says what they are for (--parameter=NAME trains them): ",
      absl::StrJoin(unreached.begin(), unreached.begin() + shown, ", "),
      shown < unreached.size() ? absl::StrCat(" and ", unreached.size() - shown, " more") : "");
}

} // namespace

ImportReport reportOf(ModuleOp model) {
  ImportReport report;
  report.source = "the model file";
  for (auto function : model.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto kind = kindOfArgument(function, i);
      auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
      using Kind = ImportedTensor::Kind;
      const std::optional<Kind> became = kind == ArgumentKind::Parameter   ? Kind::Trained
                                         : kind == ArgumentKind::Frozen    ? Kind::Frozen
                                         : kind == ArgumentKind::Statistic ? Kind::Statistic
                                                                           : std::optional<Kind>();
      if (!type || !became)
        continue;
      auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
      report.tensors.push_back(
          {*became, name ? name.str() : "", type.getShape().vec(), "stow.kind"});
    }
    function.walk([&](ConstantOp op) {
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      if (isa<FloatType>(type.getElementType()))
        report.tensors.push_back(
            {ImportedTensor::Kind::Constant, "", type.getShape().vec(), "stow.constant"});
    });
  }
  return report;
}

TensorCounts countTensors(const ImportReport &report) {
  TensorCounts counts;
  counts.source = report.source + describeUnreached(report.unreached);
  for (const ImportedTensor &tensor : report.tensors) {
    if (tensor.kind == ImportedTensor::Kind::Unused)
      continue;
    TensorCounts::Count &count = tensor.kind == ImportedTensor::Kind::Trained  ? counts.trained
                                 : tensor.kind == ImportedTensor::Kind::Frozen ? counts.frozen
                                 : tensor.kind == ImportedTensor::Kind::Statistic
                                     ? counts.statistics
                                     : counts.constant;
    ++count.tensors;
    count.elements += elementCount(tensor.shape);
  }
  return counts;
}

std::string renderTensors(const ImportReport &report) {
  int nameWidth = 4, shapeWidth = 5;
  for (const ImportedTensor &tensor : report.tensors) {
    nameWidth = std::max(nameWidth, static_cast<int>(tensor.name.size()));
    shapeWidth = std::max(shapeWidth, static_cast<int>(shapeOf(tensor).size()));
  }
  std::string out;
  for (const ImportedTensor &tensor : report.tensors)
    absl::StrAppendFormat(&out, "%-9s  %-*s  %-*s  %s\n", nameOf(tensor.kind), nameWidth,
                          tensor.name, shapeWidth, shapeOf(tensor), tensor.reason);
  return out + describe(countTensors(report)) + "\n";
}

} // namespace stow
