#include "compiler/Options.h"

#include "codegen/host/ObjectFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/program/Flags.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <thread>

namespace stow {
namespace {

/// Splits "name:key=value,key=value"; keys must be among `known`.
std::string parseSpec(const std::string &what, const std::string &text,
                      const std::vector<std::string> &known,
                      std::map<std::string, std::string> &settings) {
  size_t colon = text.find(':');
  std::string name = text.substr(0, colon);
  if (colon == std::string::npos)
    return name;
  std::istringstream parts(text.substr(colon + 1));
  for (std::string part; std::getline(parts, part, ',');) {
    size_t equals = part.find('=');
    std::string key = part.substr(0, equals);
    if (std::ranges::find(known, key) == known.end()) {
      std::string list;
      for (const std::string &candidate : known)
        list += (list.empty() ? "" : ", ") + candidate;
      throw Error::badInput("unknown setting \"" + key + "\" in " + what + " \"" + text +
                            "\"; known are " + list);
    }
    settings[key] = equals == std::string::npos ? "true" : part.substr(equals + 1);
  }
  return name;
}

Form parseForm(const std::string &text) {
  if (text == "model")
    return Form::Model;
  if (text == "step")
    return Form::Step;
  if (text == "ordered")
    return Form::Ordered;
  if (text == "placed")
    return Form::Placed;
  throw Error::badInput("unknown form \"" + text +
                        "\" for --stop-after; known are model, step, ordered, placed");
}

Emit parseEmit(const std::string &text) {
  if (text != "executable" && text != "shared")
    throw Error::badInput("unknown kind \"" + text + "\" for --emit; known are executable, shared");
  return text == "shared" ? Emit::Shared : Emit::Executable;
}

std::vector<std::string> splitList(const std::string &text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    parts.push_back(part);
  return parts;
}

/// `name`, if this machine's code generator knows it.
std::string checkedTargetCpu(const std::string &name) {
  const std::vector<std::string> known = targetCpus();
  if (name == "native" || std::ranges::find(known, name) != known.end())
    return name;
  const std::string near = nearest(name, known);
  throw Error::badInput("unknown processor \"" + name + "\" for --target-cpu" +
                        (near.empty() ? "" : "; did you mean " + near + "?") +
                        "; expected native, x86-64-v3 (AVX2), x86-64-v4 (AVX-512) or a name that "
                        "clang -mcpu=help prints");
}

/// The flags of a compilation, storing into `options`.
Flags compileFlags(CompileOptions &options, bool wantsOutput) {
  Flags flags;
  if (wantsOutput) {
    flags.value("output", "FILE", "the file to write (also -o FILE)",
                [&](const std::string &text) { options.outputPath = text; });
    flags.value("emit", "KIND",
                "executable (the default), or shared: a library that C and Python can load",
                [&](const std::string &text) { options.emit = parseEmit(text); });
  }
  flags.value("loss", "LOSS",
              "cross-entropy[:reduction=mean|sum,ignore-index=N,class-axis=N] or mse[:reduction=]",
              [&](const std::string &text) { options.loss = parseLoss(text); });
  flags.value("loss-output", "NAME", "the model output the loss reads, where there are several",
              [&](const std::string &text) { options.lossOutput = text; });
  flags.value("optimizer", "OPTIMIZER",
              "sgd, adam or adamw with settings, e.g. sgd:lr=0.1,momentum=0.9,nesterov or "
              "adamw:lr=1e-3,weight-decay=0.01",
              [&](const std::string &text) { options.optimizer = parseOptimizer(text); });
  flags.value("batch", "N", "samples per step; rewrites the batch baked into the model",
              [&](const std::string &text) {
                options.import.batch =
                    parseCount("batch", text, 1, std::numeric_limits<int32_t>::max());
              });
  flags.value("input", "NAMES", "graph inputs that carry data, where weights are inputs too",
              [&](const std::string &text) { options.import.dataInputs = splitList(text); });
  flags.value("init", "RULE",
              "how weights without values start: pytorch, kaiming, xavier, normal[:stddev], "
              "uniform[:bound]",
              [&](const std::string &text) { options.import.init = text; });
  flags.value("freeze", "PATTERNS", "parameters that are not trained, e.g. 'layer1.*'",
              [&](const std::string &text) { options.import.frozen = splitList(text); });
  flags.flag("list-parameters",
             "print every tensor of the model, what becomes of it and why, and stop",
             [&] { options.listParameters = true; });
  flags.flag("allow-folded",
             "take a file as it is whose exporter folded, merged or copied parameters",
             [&] { options.import.allowFolded = true; });
  flags.value("batch-norm-momentum", "X", "PyTorch's momentum of every batch normalization",
              [&](const std::string &text) {
                options.import.batchNormMomentum = parseReal("batch-norm-momentum", text);
              });
  flags.flag("freeze-batch-norm", "normalize with the running statistics in training too",
             [&] { options.freezeBatchNorm = true; });
  flags.flag("no-dropout", "train without the model's dropouts",
             [&] { options.disableDropout = true; });
  flags.value("checkpoint", "MODE", "none: keep all activations; sqrt: recompute segments",
              [&](const std::string &text) { options.checkpoint = text; });
  flags.value("memory-budget", "BYTES",
              "the arena's limit: 2GiB, 900MB, bytes, or 70% of the arena without a limit; "
              "recomputes what does not fit, in the least time",
              [&](const std::string &text) { options.memoryBudget = parseByteBudget(text); });
  flags.value(
      "device", "DEVICE",
      "whose speed weighs recomputations: cpu, a100, h100, h200, rtx4090, or a profile.json",
      [&](const std::string &text) { options.device = text; });
  flags.value("profile", "run|FILE",
              "weigh recomputations by measured times: run measures every kernel of the step on "
              "this machine now, FILE is what --save-profile wrote",
              [&](const std::string &text) { options.profile = text; });
  flags.value("save-profile", "FILE", "write the times that --profile=run measured, as JSON",
              [&](const std::string &text) { options.saveProfilePath = text; });
  flags.value("save-problem", "FILE",
              "write the step as a schedule problem, as `stowage remat` reads it",
              [&](const std::string &text) { options.saveProblemPath = text; });
  flags.value("remarks", "FILE", "write what becomes of every value, and its price, as YAML",
              [&](const std::string &text) { options.remarksPath = text; });
  flags.value("threads", "N", "threads to plan for (default: the cores of this machine)",
              [&](const std::string &text) {
                options.threads = parseCount("threads", text, 1, maxThreads);
              });
  flags.value("target-cpu", "CPU", "native, x86-64-v3 (AVX2), x86-64-v4 (AVX-512), ...",
              [&](const std::string &text) { options.targetCpu = checkedTargetCpu(text); });
  flags.value("stop-after", "FORM", "print a form and stop: model, step, ordered, placed",
              [&](const std::string &text) { options.stopAfter = parseForm(text); });
  flags.flag("timing", "print the seconds of every stage", [&] { options.timing = true; });
  return flags;
}

} // namespace

OptimizerSpec parseOptimizer(const std::string &text) {
  OptimizerSpec spec;
  spec.text = text;
  spec.name = parseSpec("optimizer", text,
                        {"lr", "momentum", "nesterov", "weight-decay", "beta1", "beta2", "epsilon"},
                        spec.settings);
  if (spec.name != "sgd" && spec.name != "adam" && spec.name != "adamw")
    throw Error::badInput("unknown optimizer \"" + spec.name + "\"; known are sgd, adam, adamw");
  bool isSgd = spec.name == "sgd";
  for (const auto &[key, value] : spec.settings) {
    bool isAdamOnly = key == "beta1" || key == "beta2" || key == "epsilon";
    bool isSgdOnly = key == "momentum" || key == "nesterov";
    if (isSgd ? isAdamOnly : isSgdOnly)
      throw Error::badInput("optimizer " + spec.name + " has no setting \"" + key + "\"");
    bool isShare = key == "momentum" || key == "beta1" || key == "beta2";
    if (key != "nesterov" && parseRate("optimizer " + key, value) >= 1 && isShare)
      throw Error::badInput("--optimizer " + key + ": expected a number below 1, found '" + value +
                            "'");
  }
  spec.learningRate = isSgd ? 0.01 : 0.001;
  if (auto rate = spec.settings.extract("lr"); !rate.empty())
    spec.learningRate = parseReal("optimizer lr", rate.mapped());
  if (spec.name == "adamw")
    spec.settings.try_emplace("weight-decay", "0.01");
  return spec;
}

LossSpec parseLoss(const std::string &text) {
  LossSpec spec;
  spec.name = parseSpec("loss", text, {"reduction", "ignore-index", "class-axis"}, spec.settings);
  if (spec.name != "cross-entropy" && spec.name != "mse")
    throw Error::badInput("unknown loss \"" + spec.name + "\"; known are cross-entropy, mse");
  for (const char *key : {"ignore-index", "class-axis"}) {
    auto index = spec.settings.find(key);
    if (index == spec.settings.end())
      continue;
    if (spec.name == "mse")
      throw Error::badInput(std::string("loss mse has no setting \"") + key + "\"");
    int64_t value = 0;
    const std::string &digits = index->second;
    auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || stop != digits.data() + digits.size())
      throw Error::badInput(std::string("loss ") + key + ": expected a whole number, found '" +
                            digits + "'");
  }
  return spec;
}

CompileOptions parseCompileOptions(const std::vector<std::string> &arguments, bool wantsOutput) {
  CompileOptions options;
  Flags flags = compileFlags(options, wantsOutput);
  std::vector<std::string> flagWords;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &word = arguments[i];
    if (word == "-o") {
      if (!wantsOutput)
        throw Error::badInput("-o belongs to stowage compile; a plan goes to standard output");
      if (i + 1 == arguments.size())
        throw Error::badInput("-o needs a value: -o FILE");
      options.outputPath = arguments[++i];
    } else if (word.starts_with("-")) {
      flagWords.push_back(word);
      if (flags.takesNextWord(word) && i + 1 < arguments.size())
        flagWords.push_back(arguments[++i]);
    } else if (options.modelPath.empty()) {
      options.modelPath = word;
    } else {
      throw Error::badInput("two models given: \"" + options.modelPath + "\" and \"" + word + "\"");
    }
  }
  flags.parse(flagWords);
  if (options.modelPath.empty())
    throw Error::badInput("no model given; expected a .onnx or .mlir file");
  if (options.checkpoint != "none" && options.checkpoint != "sqrt")
    throw Error::badInput("unknown checkpoint mode \"" + options.checkpoint +
                          "\"; known are none, sqrt");
  if (options.memoryBudget && options.checkpoint != "none")
    throw Error::badInput("--checkpoint and --memory-budget both decide what is computed again; "
                          "give one of them");
  if (!options.profile.empty() && options.device != "cpu")
    throw Error::badInput("--profile has the times of this machine's processor, --device=" +
                          options.device + " those of another; give one of them");
  if (!options.saveProfilePath.empty() && options.profile != "run")
    throw Error::badInput("--save-profile writes what --profile=run measures; add --profile=run");
  if (options.threads == 0)
    options.threads = std::max(1u, std::thread::hardware_concurrency());
  return options;
}

std::string compileHelp(bool wantsOutput) {
  CompileOptions options;
  return compileFlags(options, wantsOutput).help();
}

} // namespace stow
