#include "runtime/format/Loss.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace stow {
namespace {

using Kind = LossSpec::Kind;
using Reduction = LossSpec::Reduction;

struct KindRow {
  Kind kind;
  const char *name;
  std::vector<std::string> settings;
};

const std::vector<KindRow> kinds = {
    {Kind::CrossEntropy,
     "cross-entropy",
     {"reduction", "ignore-index", "class-axis", "label-smoothing", "weight", "probabilities"}},
    {Kind::NegativeLogLikelihood, "nll", {"reduction", "ignore-index", "class-axis", "weight"}},
    {Kind::BinaryCrossEntropy, "bce-with-logits", {"reduction", "weight", "pos-weight"}},
    {Kind::KullbackLeibler, "kl-div", {"reduction", "log-target"}},
    {Kind::SquaredError, "mse", {"reduction"}},
    {Kind::AbsoluteError, "l1", {"reduction"}},
    {Kind::SmoothL1, "smooth-l1", {"reduction", "beta"}},
    {Kind::Huber, "huber", {"reduction", "delta"}},
    {Kind::Output, "output", {"reduction"}},
};

const std::vector<std::pair<Reduction, const char *>> reductions = {
    {Reduction::Mean, "mean"}, {Reduction::Sum, "sum"}, {Reduction::BatchMean, "batchmean"}};

const KindRow &rowOf(Kind kind) { return *std::ranges::find(kinds, kind, &KindRow::kind); }

std::string exact(double value) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

/// One setting of a loss, for messages.
class Setting {
public:
  Setting(const std::string &loss, std::string key, std::string value)
      : loss(loss), key(std::move(key)), value(std::move(value)) {}

  [[noreturn]] void fail(const std::string &expected) const {
    throw Error::badInput("loss " + loss + ": " + key + ": expected " + expected + ", found '" +
                          value + "'");
  }

  double real(const std::string &text, double least, double most,
              const std::string &expected) const {
    double number = 0;
    auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stop != text.data() + text.size() || !(number >= least) ||
        !(number <= most) || std::isinf(number))
      fail(expected);
    return number;
  }
  double real(double least, double most, const std::string &expected) const {
    return real(value, least, most, expected);
  }

  int64_t whole() const {
    int64_t number = 0;
    auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size())
      fail("a whole number");
    return number;
  }

  bool isSet() const {
    if (value != "true" && value != "false")
      fail("true or false");
    return value == "true";
  }

  /// "[1,2]", one number, or a file.
  std::vector<double> list(const ReadNumbers &readNumbers) const {
    const std::string expected = "numbers of at least 0 as [1,0.5,...]";
    std::vector<double> numbers;
    if (value.starts_with("[") && value.ends_with("]")) {
      std::string inner = value.substr(1, value.size() - 2);
      for (size_t at = 0; at <= inner.size();) {
        size_t end = std::min(inner.find(',', at), inner.size());
        numbers.push_back(real(inner.substr(at, end - at), 0, maximum, expected));
        at = end + 1;
      }
    } else if (readNumbers) {
      numbers = readNumbers(value);
    } else {
      fail(expected);
    }
    for (double number : numbers)
      if (!(number >= 0) || std::isinf(number))
        fail("numbers of at least 0; the file has " + exact(number));
    if (numbers.empty())
      fail("at least one number");
    return numbers;
  }

  static constexpr double maximum = std::numeric_limits<double>::max();
  const std::string &loss;
  std::string key, value;
};

/// Splits at commas outside of brackets.
std::vector<std::string> splitSettings(const std::string &text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Reduction parseReduction(const Setting &setting, Kind kind) {
  for (const auto &[reduction, name] : reductions)
    if (setting.value == name &&
        (reduction != Reduction::BatchMean || kind == Kind::KullbackLeibler))
      return reduction;
  setting.fail(
      std::string(kind == Kind::KullbackLeibler ? "mean, batchmean or sum" : "mean or sum") +
      (setting.value == "none" ? ": training needs one number" : ""));
}

void apply(LossSpec &spec, const Setting &setting, const ReadNumbers &readNumbers) {
  const std::string &key = setting.key;
  if (key == "reduction") {
    spec.reduction = parseReduction(setting, spec.kind);
    spec.hasReduction = true;
  } else if (key == "ignore-index") {
    spec.ignoreIndex = setting.whole();
  } else if (key == "class-axis") {
    spec.classAxis = setting.whole();
  } else if (key == "label-smoothing") {
    spec.labelSmoothing = setting.real(0, 1, "a number from 0 to 1");
  } else if (key == "weight") {
    spec.weight = setting.list(readNumbers);
  } else if (key == "pos-weight") {
    spec.positiveWeight = setting.list(readNumbers);
  } else if (key == "probabilities") {
    spec.probabilities = setting.isSet();
  } else if (key == "log-target") {
    spec.logTarget = setting.isSet();
  } else if (key == "beta") {
    spec.beta = setting.real(0, Setting::maximum, "a number of at least 0");
  } else { // delta
    spec.beta =
        setting.real(std::numeric_limits<double>::min(), Setting::maximum, "a number above 0");
  }
}

std::string listText(const std::vector<double> &numbers, size_t longest) {
  if (numbers.size() > longest)
    return concat("[", numbers.size(), " numbers]");
  std::string text;
  for (double number : numbers)
    text += (text.empty() ? "" : ",") + exact(number);
  return "[" + text + "]";
}

std::string printed(const LossSpec &loss, size_t longestList) {
  const LossSpec plain;
  std::string settings;
  auto add = [&](const std::string &text) { settings += (settings.empty() ? "" : ",") + text; };
  if (loss.kind == Kind::Output)
    add(loss.output);
  if (loss.hasReduction)
    add("reduction=" + nameOf(loss.reduction));
  if (loss.ignoreIndex != plain.ignoreIndex)
    add(concat("ignore-index=", loss.ignoreIndex));
  if (loss.classAxis != plain.classAxis)
    add(concat("class-axis=", loss.classAxis));
  if (loss.labelSmoothing != 0)
    add("label-smoothing=" + exact(loss.labelSmoothing));
  if (loss.probabilities)
    add("probabilities");
  if (loss.logTarget)
    add("log-target");
  if (loss.beta != plain.beta)
    add((loss.kind == Kind::Huber ? "delta=" : "beta=") + exact(loss.beta));
  if (!loss.weight.empty())
    add("weight=" + listText(loss.weight, longestList));
  if (!loss.positiveWeight.empty())
    add("pos-weight=" + listText(loss.positiveWeight, longestList));
  return nameOf(loss.kind) + (settings.empty() ? "" : ":" + settings);
}

} // namespace

std::string nameOf(LossSpec::Kind kind) { return rowOf(kind).name; }

std::string nameOf(LossSpec::Reduction reduction) {
  return std::ranges::find(reductions, reduction, &std::pair<Reduction, const char *>::first)
      ->second;
}

std::string nameOf(OutputActivation activation) {
  switch (activation) {
  case OutputActivation::Softmax:
    return "softmax";
  case OutputActivation::Sigmoid:
    return "sigmoid";
  case OutputActivation::None:
    break;
  }
  return "";
}

OutputActivation parseOutputActivation(const std::string &name) {
  using enum OutputActivation;
  for (OutputActivation activation : {None, Softmax, Sigmoid})
    if (nameOf(activation) == name)
      return activation;
  throw Error::badInput("unknown activation '" + name +
                        "' of the output; expected softmax, sigmoid or nothing");
}

LossSpec parseLoss(const std::string &text, const ReadNumbers &readNumbers) {
  size_t colon = text.find(':');
  std::string name = text.substr(0, colon);
  std::vector<std::string> names;
  for (const KindRow &known : kinds)
    names.emplace_back(known.name);
  // PyTorch's classes are called losses: CrossEntropyLoss.
  std::optional<size_t> found = findName(name, names);
  if (const std::string suffix = "Loss"; !found && name.ends_with(suffix))
    found = findName(name.substr(0, name.size() - suffix.size()), names);
  if (!found) {
    names.back() += ":NAME";
    throw Error::badInput("unknown loss \"" + name + "\"" + knownNames(name, names));
  }
  const KindRow *row = &kinds[*found];
  name = row->name;
  LossSpec spec;
  spec.kind = row->kind;
  std::vector<std::string> parts;
  if (colon != std::string::npos)
    parts = splitSettings(text.substr(colon + 1));
  if (spec.kind == Kind::Output) {
    if (parts.empty() || parts.front().empty())
      throw Error::badInput("loss output: expected the name of the model's output, as output:NAME");
    spec.output = parts.front();
    parts.erase(parts.begin());
  }
  for (const std::string &part : parts) {
    size_t equals = part.find('=');
    std::string key = part.substr(0, equals);
    const std::optional<size_t> setting = findName(key, row->settings);
    if (!setting)
      throw Error::badInput("loss " + name + " has no setting \"" + key + "\"" +
                            knownNames(key, row->settings));
    key = row->settings[*setting];
    apply(spec, Setting(name, key, equals == std::string::npos ? "true" : part.substr(equals + 1)),
          readNumbers);
  }
  return spec;
}

std::string print(const LossSpec &loss) {
  return printed(loss, std::numeric_limits<size_t>::max());
}

std::string describe(const LossSpec &loss) { return printed(loss, 8); }

std::string lossHelp() {
  std::string text;
  for (const KindRow &row : kinds) {
    text += std::string(text.empty() ? "" : "; ") + row.name;
    if (row.kind == Kind::Output)
      text += ":NAME";
    text += "[" + joined(row.settings) + "]";
  }
  return text;
}

} // namespace stow
