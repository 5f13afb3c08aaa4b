#include "compiler/Options.h"

#include "codegen/Measured.h"
#include "codegen/program/ObjectFile.h"
#include "compiler/CardVerdict.h"
#include "compiler/DataSheet.h"
#include "compiler/ProgressLine.h"
#include "runtime/base/Error.h"
#include "runtime/base/MemoryFlag.h"
#include "runtime/base/Names.h"
#include "runtime/base/Parallel.h"
#include "runtime/base/Text.h"
#include "runtime/data/ArrayFile.h"
#include "runtime/report/Verdict.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

namespace stow {
namespace {

/// A limit of gradients.
double parseLimit(const std::string &flag, const std::string &text) {
  double limit = parseReal(flag, text);
  if (!(limit > 0))
    throw Error::badInput("--" + flag + ": expected a number above 0, found '" + text + "'");
  return limit;
}

/// The training samples of a data file: rows of all its arrays but those of the test split.
int64_t trainingRows(const std::string &path) {
  const ArrayFile file(path);
  std::string list;
  std::set<int64_t> counts;
  for (const std::string &name : file.names())
    if (!absl::EndsWith(name, "_test")) {
      const int64_t rows = file.load(name).rowCount();
      counts.insert(rows);
      absl::StrAppend(&list, list.empty() ? "" : ", ", name, " has ", rows);
    }
  if (counts.size() != 1 || *counts.begin() < 1)
    throw Error::badInput(absl::StrCat(
        "--data-on-device=", path,
        ": expected arrays of one number of rows beside those of the test "
        "split (..._test), found ",
        list.empty() ? "none" : list, "; give the number of samples, --data-on-device=ROWS"));
  return *counts.begin();
}

int64_t parseDataRows(const std::string &text) {
  if (text == "none")
    return 0;
  if (std::ranges::all_of(text, absl::ascii_isdigit))
    return parseCount("data-on-device", text, 1, std::numeric_limits<int32_t>::max());
  if (!std::filesystem::exists(text))
    throw Error::badInput(
        "--data-on-device: expected a number of samples, a data file or none, found '" + text +
        "'");
  return trainingRows(text);
}

Form parseForm(const std::string &text) {
  constexpr Form forms[] = {Form::Model, Form::Step, Form::Ordered, Form::Placed};
  return forms[oneOf(text, {"model", "step", "ordered", "placed"}, "form", "--stop-after")];
}

/// The words between commas; the last one may end in a comma.
std::vector<std::string> splitList(const std::string &text) {
  if (text.empty())
    return {};
  return absl::StrSplit(absl::StripSuffix(text, ","), ',');
}

Precision parsePrecision(const std::string &text) {
  constexpr Precision types[] = {Precision::F32, Precision::BF16, Precision::F16};
  if (const std::optional<size_t> found =
          findName(text, {"float32", "bfloat16", "float16", "fp32", "bf16", "f16"}))
    return types[*found % 3];
  return types[oneOf(text, {"f32", "bf16", "fp16"}, "type", "--precision")];
}

/// The axis that is dimension 0 of every data input, whatever a file calls it.
constexpr const char *kBatchAxis = "batch";

ImportOptions importFor(const CompileOptions &options, const StepShape &shape) {
  ImportOptions import = options.import;
  for (const auto &[axis, extent] : shape.extents)
    if (axis == kBatchAxis)
      import.batch = extent;
    else
      import.extents[axis] = extent;
  return import;
}

void parseAccumulate(const std::string &text, CompileOptions &options) {
  options.accumulate = text == "auto" ? kAny : parseCount("accumulate", text, 1, 1 << 20);
}

/// "sequence:128,256,512".
ShapeAxis parseShapes(const std::string &text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  ShapeAxis axis{parts.first, {}};
  for (const std::string &extent : splitList(parts.second))
    axis.extents.push_back(parseCount("shapes", extent, 1, std::numeric_limits<int32_t>::max()));
  if (axis.name.empty() || axis.extents.empty())
    throw Error::badInput(
        "--shapes: expected a dimension and its sizes, e.g. sequence:128,256,512, found \"" + text +
        "\"");
  std::ranges::sort(axis.extents, std::greater());
  if (std::ranges::adjacent_find(axis.extents) != axis.extents.end())
    throw Error::badInput("--shapes=" + text + " names a size twice");
  return axis;
}

/// All combinations of the axes' sizes, the largest first: by the product of their sizes, then in the order of the axes.
std::vector<StepShape> shapesOf(const std::vector<ShapeAxis> &axes) {
  struct Sized {
    StepShape shape;
    double elements = 1;
  };
  std::vector<Sized> all(1);
  for (const ShapeAxis &axis : axes) {
    std::vector<Sized> longer;
    for (const Sized &one : all)
      for (int64_t extent : axis.extents) {
        Sized next = one;
        absl::StrAppend(&next.shape.name, next.shape.name.empty() ? "" : ",", axis.name, "=",
                        extent);
        next.shape.extents[axis.name] = extent;
        next.elements *= static_cast<double>(extent);
        longer.push_back(std::move(next));
      }
    all = std::move(longer);
  }
  std::ranges::stable_sort(all, std::greater(), &Sized::elements);
  std::vector<StepShape> shapes;
  for (Sized &one : all)
    shapes.push_back(std::move(one.shape));
  return shapes;
}

/// Most shapes of one step, each of which is planned and compiled.
constexpr size_t kMostShapes = 64;

/// What --shapes says, as shapes, and as what is imported.
void finishShapes(CompileOptions &options) {
  if (options.shapeAxes.empty())
    return;
  if (!options.modelPath.ends_with(".onnx"))
    throw Error::badInput("--shapes: the shapes of an .mlir model are its own; take the .onnx file "
                          "that it comes from");
  size_t count = 1;
  for (const ShapeAxis &axis : options.shapeAxes) {
    count *= axis.extents.size();
    if (axis.name == kBatchAxis && axis.extents.size() > 1 && options.accumulate == kAny)
      throw Error::badInput("--accumulate=auto divides one batch, --shapes=batch:... names "
                            "several; say how many: --accumulate=K");
    if (axis.name == kBatchAxis && options.import.batch)
      throw Error::badInput("--shapes=batch:... and --batch both say how many samples a step has; "
                            "give one of them");
  }
  if (count > kMostShapes)
    throw Error::badInput(absl::StrCat("--shapes make ", count,
                                       " shapes, each a step of its own; expected at most ",
                                       kMostShapes));
  std::vector<StepShape> shapes = shapesOf(options.shapeAxes);
  options.import = importFor(options, shapes.front());
  if (shapes.size() > 1)
    options.shapes = std::move(shapes);
  options.shapeAxes.clear(); // options may be finished again, and say the same now
}

std::string parseLossScale(const std::string &text) {
  return oneOf(text, {"dynamic", "delayed"}, "mode", "--loss-scale") == 0 ? "dynamic" : "delayed";
}

/// The patterns behind "f32:".
std::vector<std::string> parseKeep(const std::string &text) {
  const std::string prefix = "f32:";
  if (!text.starts_with(prefix) || text.size() == prefix.size())
    throw Error::badInput(
        "--keep: expected f32: and patterns of node names, e.g. f32:/head/*, found "
        "\"" +
        text + "\"");
  return splitList(text.substr(prefix.size()));
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

/// Percents of three words: none of the state, all of it, or as much as a budget needs.
std::optional<int64_t> shareOf(size_t word) {
  const std::optional<int64_t> percents[] = {0, 100, std::nullopt};
  return percents[word];
}

/// The share of the optimizer's state that is in 8 bits.
std::optional<int64_t> parseState(const std::string &text) {
  if (findName(text, {"bfloat16", "bf16"}))
    throw Error::badInput(concat(
        "--optimizer-state=", text,
        ": a mean of squares moves by a thousandth a step, which bf16 rounds away, so that it "
        "would never shrink; in 8 bits each block has a number in f32, which takes half of "
        "bf16's bytes and follows: --optimizer-state=8bit"));
  return shareOf(oneOf(text, {"f32", "8bit", "auto"}, "type of state", "--optimizer-state"));
}

void parseShards(const std::string &text, CompileOptions &options) {
  const size_t kind =
      oneOf(text, {"none", "optimizer", "parameters", "auto"}, "kind of state", "--shard-state");
  options.shardPercent = options.weightShardPercent = std::nullopt; // auto
  if (kind < 3) {
    options.shardPercent = kind == 0 ? 0 : 100;
    options.weightShardPercent = kind == 2 ? 100 : 0;
  }
}

void parseDevices(const std::string &text, CompileOptions &options) {
  options.deviceCounts.clear();
  for (const std::string &number : text.empty() ? std::vector{text} : splitList(text))
    options.deviceCounts.push_back(parseCount("devices", number, 1, 1 << 16));
  options.devices = *std::ranges::max_element(options.deviceCounts);
  if (options.deviceCounts.size() == 1)
    options.deviceCounts.clear();
}

/// What is minimized, and how.
void addObjectiveFlags(CommandLine &flags, CompileOptions &options) {
  flags.value("loss", "LOSS",
              "what is minimized, with settings, e.g. cross-entropy:"
              "label-smoothing=0.1; all: " +
                  lossHelp(),
              [&](const std::string &text) { options.loss = parseLoss(text, readNumbers); });
  flags.value("loss-output", "NAME", "the model output the loss reads, where there are several",
              [&](const std::string &text) { options.lossOutput = text; });
  flags.value(
      "loss-chunks", "N|auto",
      "the last product and the loss, also one of the model's own, run in N chunks of rows, so "
      "that the logits never exist whole; changes the last bits of the gradients of the head's "
      "weight and bias, and of a loss that is one sum over rows and columns; auto: as few chunks "
      "as give the smallest arena, or the least time within "
      "the budget",
      [&](const std::string &text) {
        options.lossChunks = text == "auto" ? kAny : parseCount("loss-chunks", text, 1, 1 << 20);
      });
  flags.value(
      "row-chunks", "N|auto",
      "elementwise ops between two products, like the hidden layer of a transformer's block, and "
      "convolutions up to a narrower value run in N chunks of rows, so that what lies between "
      "never exists whole; changes the last bits of the gradients of their weights and biases; "
      "auto: as "
      "few chunks as give the smallest arena, or the least time within the budget",
      [&](const std::string &text) {
        options.rowChunks = text == "auto" ? kAny : parseCount("row-chunks", text, 1, 1 << 20);
      });
  flags.value("optimizer", "OPTIMIZER",
              "with settings, e.g. sgd:lr=0.1,momentum=0.9,nesterov or "
              "adamw:lr=1e-3,weight-decay=0.01; all: " +
                  optimizerHelp(),
              [&](const std::string &text) { options.optimizer = parseOptimizer(text); });
  flags.value("group", "PATTERN:SETTINGS",
              "parameters of their own, e.g. 'head.*:lr-scale=10,weight-decay=0'; repeatable, the "
              "first that matches wins",
              [&](const std::string &text) { options.groups.push_back(parseGroup(text)); });
  flags.value("no-decay", "KINDS", "parameters without weight decay: norm, bias or norm,bias",
              [&](const std::string &text) {
                for (const std::string &kind : splitList(text))
                  options.noDecay.emplace_back(
                      oneOf(kind, {"norm", "bias"}, "kind of parameters", "--no-decay") == 0
                          ? "norm"
                          : "bias");
              });
  flags.value("clip-norm", "X",
              "scale all gradients so that their common norm is at most X; keeps all of them",
              [&](const std::string &text) { options.clipNorm = parseLimit("clip-norm", text); });
  flags.value("clip-value", "X", "clamp every element of a gradient to [-X, X]",
              [&](const std::string &text) { options.clipValue = parseLimit("clip-value", text); });
  flags.value("optimizer-state", "TYPE",
              "what the optimizer keeps of large matrices: f32, 8bit (codes in blocks of 256), or "
              "auto: as little in 8 bits as fits the budget, the largest first",
              [&](const std::string &text) { options.eightBitPercent = parseState(text); });
  flags.value("shard-state", "KINDS",
              "with --devices, state of which each device keeps a part alone: none, optimizer "
              "(ZeRO's first stage), parameters (these as well: its third, FSDP), or auto: as "
              "little as fits the budget, the largest parameters first",
              [&](const std::string &text) { parseShards(text, options); });
  flags.value("input-gradients", "NAMES", "inputs whose gradient the step gives as well",
              [&](const std::string &text) { options.inputGradients = splitList(text); });
}

/// What the file is taken for.
void addModelFlags(CommandLine &flags, CompileOptions &options) {
  flags.value("batch", "N", "samples per optimizer step; rewrites the batch baked into the model",
              [&](const std::string &text) {
                options.import.batch =
                    parseCount("batch", text, 1, std::numeric_limits<int32_t>::max());
              });
  flags.value(
      "shapes", "AXIS:N,N,...",
      "sizes that the inputs may have, e.g. sequence:128,256,512 (a dimension as the file names "
      "it, or "
      "batch): a step for each, over one state and in one arena; repeatable, all combinations",
      [&](const std::string &text) {
        ShapeAxis axis = parseShapes(text);
        for (const ShapeAxis &known : options.shapeAxes)
          if (known.name == axis.name)
            throw Error::badInput("--shapes names the axis \"" + axis.name + "\" twice");
        options.shapeAxes.push_back(std::move(axis));
      });
  flags.value("accumulate", "K|auto",
              "run a step as K batches of batch/K samples whose gradients are added up; auto: as "
              "many as take the least time within --memory-budget",
              [&](const std::string &text) { parseAccumulate(text, options); });
  flags.value(
      "data-on-device", "ROWS|FILE",
      "keep the training samples on the device, in the arena, with room for ROWS of them, or "
      "for those of a data file (.npz): each step reads its batch there; none: the host "
      "brings each batch",
      [&](const std::string &text) { options.dataRows = parseDataRows(text); });
  flags.value("devices", "N",
              "run a step on N devices together, each on a batch of its own, and add up their "
              "gradients: started by mpirun -n N; frontier and max-batch compare several: 1,2,4",
              [&](const std::string &text) { parseDevices(text, options); });
  flags.value("network", "LINK|GB/S[,US]",
              "with --devices, what connects them: 1gbe, 10gbe, 25gbe, 100gbe, hdr, ndr, or "
              "gigabytes a second each way and perhaps the microseconds of an exchange; sums then "
              "pass beside the backward, as far as the budget lets them, and the plan says what a "
              "step waits for them",
              [&](const std::string &text) { options.network = parseNetwork(text); });
  flags.value("input", "NAMES", "graph inputs that carry data, where weights are inputs too",
              [&](const std::string &text) { options.import.dataInputs = splitList(text); });
  flags.value("parameter", "PATTERNS",
              "graph inputs and initializers that are trained, whatever the rules say of them",
              [&](const std::string &text) { options.import.parameters = splitList(text); });
  flags.value("init", "RULE",
              "how weights without values start: pytorch, kaiming, xavier, normal[:stddev], "
              "uniform[:bound]",
              [&](const std::string &text) { options.import.init = text; });
  flags.value("freeze", "PATTERNS", "parameters that are not trained, e.g. 'layer1.*'",
              [&](const std::string &text) {
                for (std::string &pattern : splitList(text))
                  options.import.frozen.push_back(std::move(pattern));
              });
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
}

/// "none", "auto", or a share of the step's time as "2%".
Allowance parseRecompute(const std::string &text) {
  if (text == "none")
    return {};
  if (text == "auto")
    return Allowance::usual();
  absl::string_view share = text;
  if (!absl::ConsumeSuffix(&share, "%"))
    throw Error::badInput(absl::StrCat(
        "--recompute: expected none, auto or a share of the step's time as 2%, found \"", text,
        "\""));
  const double percent = parseReal("recompute", std::string(share));
  if (!(percent >= 0 && percent <= 1000))
    throw Error::badInput(
        absl::StrCat("--recompute: expected a share of 0% to 1000%, found \"", text, "\""));
  Allowance allowance;
  allowance.share = percent / 100;
  return allowance;
}

BudgetCovers parseCovers(const std::string &text) {
  return oneOf(text, {"arena", "process"}, "extent", "--budget-covers") == 0
             ? BudgetCovers::Arena
             : BudgetCovers::Process;
}

LibraryEpilogues parseEpilogues(const std::string &text) {
  constexpr LibraryEpilogues values[] = {LibraryEpilogues::None, LibraryEpilogues::Bias,
                                         LibraryEpilogues::All};
  return values[oneOf(text, {"none", "bias", "all"}, "choice", "--epilogues")];
}

/// Where the program runs, and what of that device it uses.
void addDeviceFlags(CommandLine &flags, CompileOptions &options) {
  flags.value("target", "DEVICE",
              "where the program runs: host; cuda:GPU (h100, sm_90, ...) can be planned",
              [&](const std::string &text) { options.target = requireTarget(text); });
  flags.flag("tf32", "on GPUs, products of f32 values may be cut to TF32, 10 bits of mantissa",
             [&] { options.tf32 = true; });
  flags.value("epilogues", "WHICH",
              "what calls of a GPU's libraries do to a product or convolution before they write "
              "it: none, bias (and "
              "ReLU), or all, the default: also GELU, its gradient, sums",
              [&](const std::string &text) { options.epilogues = parseEpilogues(text); });
  flags.value("cudnn", "FOLDER", "that holds cuDNN 9, where the system's is missing or another",
              [&](const std::string &text) { options.cudnnFolder = text; });
  flags.value(
      "target-cpu", "CPU",
      "the processor to plan for and the least that the program needs: native, x86-64-v3 (AVX2), "
      "x86-64-v4 (AVX-512), cooperlake (with bf16), sapphirerapids (with AMX), ...",
      [&](const std::string &text) { options.targetCpu = checkedTargetCpu(text); });
}

/// What the step does not do, what it may take, and what is printed of it.
void addPlanningFlags(CommandLine &flags, CompileOptions &options) {
  flags.value("frozen", "TYPES",
              "what frozen parameters are stored in: auto, f32, bf16, f16, int8, nf4, or "
              "PATTERN:TYPE, several with commas",
              [&](const std::string &text) { options.frozenTypes = splitList(text); });
  flags.flag("freeze-batch-norm", "normalize with the running statistics in training too",
             [&] { options.freezeBatchNorm = true; });
  flags.flag("sync-batch-norm", "several devices: normalize by the statistics of all their samples",
             [&] { options.syncBatchNorm = true; });
  flags.flag("no-dropout", "train without the model's dropouts",
             [&] { options.disableDropout = true; });
  flags.value(
      "precision", "TYPE",
      "f32, bf16 or fp16: what products and convolutions read, and what activations and their "
      "gradients are stored in; parameters and their updates stay in f32",
      [&](const std::string &text) { options.precision = parsePrecision(text); });
  flags.value("loss-scale", "MODE",
              "with --precision=fp16: dynamic, updates wait until all gradients are known to be "
              "finite, or delayed, each waits for its own (default dynamic)",
              [&](const std::string &text) { options.lossScale = parseLossScale(text); });
  flags.value("keep", "f32:PATTERNS", "nodes that --precision leaves in f32, e.g. 'f32:/head/*'",
              [&](const std::string &text) { options.keepWide = parseKeep(text); });
  flags.value("checkpoint", "MODE", "sqrt: recompute segments (Chen et al.)",
              [&](const std::string &text) {
                oneOf(text, {"sqrt"}, "checkpoint mode");
                options.inSegments = true;
              });
  flags.value("recompute", "SHARE",
              "how much of the step's time may go into computing values again so that the arena is "
              "smaller than it has to be: none, 2%, or auto, the default: up to 1.5%, a percent of "
              "time for at least five of memory",
              [&](const std::string &text) { options.recompute = parseRecompute(text); });
  flags.value(
      "memory-budget", "BYTES",
      "the arena's limit: 2GiB, 900MB, bytes, card (what that of the target or --card has for it), "
      "or 70% of the arena with everything kept; recomputes what does not fit, in the least time",
      [&](const std::string &text) {
        options.budgetIsCard = text == "card";
        options.memoryBudget =
            options.budgetIsCard ? ByteBudget() : parseMemory("memory-budget", text);
      });
  flags.value(
      "budget-covers", "WHAT",
      "what --memory-budget limits: arena (the default), or process: also what lies outside",
      [&](const std::string &text) { options.budgetCovers = parseCovers(text); });
  addOffloadFlags(flags, options.offload);
  flags.value("outside", "BYTES",
              "what a process takes beside the arena, where that is not known or known better",
              [&](const std::string &text) { options.outside = parseBytes(text); });
  flags.value("roofline", "SHEET",
              "data sheet whose speed weighs recomputations: " + joined(deviceNames()) +
                  ", or a file.json (default: the target's)",
              [&](const std::string &text) { options.roofline = text; });
  flags.value(
      "profile", "run|FILE",
      "weigh recomputations by measured times: run measures every kernel of the step on "
      "this machine now, FILE is what --save-profile wrote, or for a GPU what ./model train "
      "--profile=FILE wrote there",
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
  flags.value("stop-after", "FORM", "print a form and stop: model, step, ordered, placed",
              [&](const std::string &text) { options.stopAfter = parseForm(text); });
  flags.flag("timing", "print the seconds of every stage", [&] { options.timing = true; });
  flags.flag("quiet", "no word of what is being done", [] { silenceProgress(); });
}

} // namespace

std::vector<double> readNumbers(const std::string &path) {
  ArrayFile file(path);
  if (file.names().size() != 1)
    throw Error::badInput(
        absl::StrCat(path, ": expected one array of numbers, found ", file.names().size()));
  Array array = file.load(file.names().front());
  std::vector<double> numbers(static_cast<size_t>(elementCount(array.shape)));
  convertElements(array.type, array.bytes.data(), DType::F64,
                  reinterpret_cast<char *>(numbers.data()), static_cast<int64_t>(numbers.size()));
  return numbers;
}

ImportOptions importFor(const CompileOptions &options, int64_t shape) {
  return options.shapes.empty() ? options.import : importFor(options, options.shapes.at(shape));
}

Allowance allowanceOf(const CompileOptions &options) {
  return options.recompute.value_or(Allowance::usual());
}

void addCompileFlags(CommandLine &line, CompileOptions &options) {
  addObjectiveFlags(line, options);
  addModelFlags(line, options);
  addPlanningFlags(line, options);
  addDeviceFlags(line, options);
  line.elsewhere(
      {"--lr", "--learning-rate", "--momentum", "--weight-decay"},
      " is a setting of the optimizer: --optimizer=sgd:lr=0.1,momentum=0.9,weight-decay=1e-4");
}

Bytes reservedOf(const CompileOptions &options) {
  return options.memoryBudget && options.memoryBudget->bytes ? options.reserve.value_or(0) : 0;
}

std::string coveredBeside(const CompileOptions &options, Bytes budget, Bytes beside) {
  if (beside == 0)
    return "";
  const Bytes reserved = reservedOf(options), process = beside - reserved;
  std::string text = absl::StrCat("the budget of ", formatBytesExact(budget), " covers ");
  if (process > 0)
    absl::StrAppend(&text, "the process, of which ", formatBytesExact(process),
                    " are outside the arena", reserved > 0 ? ", and " : "");
  if (reserved > 0)
    absl::StrAppend(&text, formatBytesExact(reserved), " for others, as --reserve says");
  return text;
}

void addCardFlag(CommandLine &line, CompileOptions &options) {
  line.value("reserve", "BYTES",
             "memory of the card for others: what --memory-budget in bytes and the card's verdict "
             "leave free (default: nothing of a budget, of a card what a desktop takes)",
             [&](const std::string &text) { options.reserve = parseMemoryBytes("reserve", text); });
  line.value(
      "card", "BYTES",
      "memory of the card that the step is to fit, as its maker states it: 24GiB (default: "
      "that of the target's GPU)",
      [&](const std::string &text) { options.card = cardOfSize(parseMemoryBytes("card", text)); });
}

void refuseCard(const CompileOptions &options) {
  if (options.card || options.reserve)
    throw Error::badInput(absl::StrCat(options.card ? "--card" : "--reserve",
                                       " needs --format=html: the page shows what fits the card"));
}

void addCardFlags(CommandLine &line, CompileOptions &options) {
  addCardFlag(line, options);
  line.flag("fit",
            "exit with status 2 where the step does not fit the card, on the host without --card "
            "this machine",
            [&] { options.fit = true; });
}

void addModelWord(CommandLine &line, CompileOptions &options) {
  line.words([&](const std::string &word) {
    if (!options.modelPath.empty())
      throw Error::badInput("two models given: \"" + options.modelPath + "\" and \"" + word + "\"");
    options.modelPath = word;
  });
}

std::string flagAgainstDevices(const CompileOptions &options) {
  for (const auto &[isGiven, flag] :
       {std::pair(!options.shapes.empty(), "--shapes"),
        std::pair(options.offload.isAsked(), "--offload"),
        std::pair(options.offload.statePercent != 0, "--offload-state"),
        std::pair(!options.inputGradients.empty(), "--input-gradients")})
    if (isGiven)
      return flag;
  return "";
}

/// Of several devices: what does not go with them yet.
static void checkDevices(const CompileOptions &options) {
  if (!options.deviceCounts.empty())
    throw Error::badInput("--devices takes one number here; stowage frontier and stowage max-batch "
                          "compare several");
  if (options.shardPercent != 0 && options.devices == 1)
    throw Error::badInput("--shard-state gives each of several devices a part of the optimizer's "
                          "state; say how many: --devices=N");
  if (options.shardPercent != 0 && options.eightBitPercent != 0)
    throw Error::badInput("--shard-state and --optimizer-state both change what is kept of large "
                          "matrices; give one of them");
  if (options.weightShardPercent != 0 && options.emit == ProgramForm::SharedLibrary)
    throw Error::badInput("--shard-state=parameters makes executables: ranks hold no whole weight "
                          "that the caller of a library, as Python is one, could read; give "
                          "optimizer or none");
  if (options.network.isKnown() && options.devices == 1)
    throw Error::badInput("--network connects several devices; say how many: --devices=N");
  if (options.network.isKnown() && options.target != kDefaultTarget)
    throw Error::badInput(
        "--network starts sums beside the commands of a processor, and collectives "
        "of --target=" +
        options.target + " lie in the stream of the step; leave one of them out");
  if (options.syncBatchNorm && options.freezeBatchNorm)
    throw Error::badInput(
        "--sync-batch-norm and --freeze-batch-norm both say what batch normalizations "
        "normalize by; give one of them");
  if (options.syncBatchNorm && options.devices == 1)
    throw Error::badInput("--sync-batch-norm normalizes by the samples of several devices; say how "
                          "many: --devices=N");
  if (const std::string flag = flagAgainstDevices(options); options.devices > 1 && !flag.empty())
    throw Error::badInput("--devices=N makes programs of a step in one shape that needs no other "
                          "memory; leave it or " +
                          flag + " out");
}

/// Of samples that stay on the device: what does not go with them.
static void checkDataRows(const CompileOptions &options) {
  if (options.dataRows == 0)
    return;
  for (const auto &[isGiven, flag] :
       {std::pair(options.emit == ProgramForm::SharedLibrary, "--emit=shared"),
        std::pair(!options.shapes.empty(), "--shapes"),
        std::pair(!options.inputGradients.empty(), "--input-gradients")})
    if (isGiven)
      throw Error::badInput(absl::StrCat(
          "--data-on-device makes executables, which read a file of samples that are all of one "
          "shape and change none of them; leave it or ",
          flag, " out"));
}

void finishOptions(CompileOptions &options) {
  if (options.modelPath.empty())
    throw Error::badInput("no model given; expected a .onnx or .mlir file");
  options.import.file = newModelFile();
  if (options.budgetIsCard)
    options.memoryBudget = {.bytes = budgetOfCard(options), .peakPercent = std::nullopt};
  if (options.memoryBudget && options.inSegments)
    throw Error::badInput("--checkpoint and --memory-budget both decide what is computed again; "
                          "give one of them");
  if (options.recompute && options.inSegments)
    throw Error::badInput(
        "--recompute and --checkpoint both decide what is computed again; give one of them");
  if (options.recompute && options.recompute->isForSmallest() && options.memoryBudget)
    throw Error::badInput(
        "--recompute=P% asks for the smallest arena within a time, --memory-budget for the least "
        "time within an arena; give one of them, or --recompute=none beside the budget");
  if (options.clipNorm > 0 && options.clipValue > 0)
    throw Error::badInput("--clip-norm and --clip-value both limit gradients; give one of them");
  if (options.loss.kind == LossSpec::Kind::Output && !options.lossOutput.empty())
    throw Error::badInput("--loss=output:NAME names the output itself; leave --loss-output out");
  if (options.eightBitPercent != 0 && options.precision == Precision::F16)
    throw Error::badInput(
        "--optimizer-state rounds state in every step, also in those that loss scaling skips; "
        "take --precision=bf16, which needs no scaling");
  if (!options.lossScale.empty() && options.precision != Precision::F16)
    throw Error::badInput("--loss-scale is for gradients in f16; add --precision=fp16");
  if (!options.keepWide.empty() && options.precision == Precision::F32)
    throw Error::badInput("--keep exempts nodes from --precision; add --precision=bf16 or fp16");
  if (options.accumulate != 1 && !options.inputGradients.empty())
    throw Error::badInput("--input-gradients gives that of the samples of one batch, --accumulate "
                          "makes a step of several; give one of them");
  finishShapes(options);
  checkDataRows(options);
  if (!options.weightShardPercent && options.emit == ProgramForm::SharedLibrary)
    options.weightShardPercent = 0;
  checkDevices(options);
  if (options.accumulate == kAny && !options.memoryBudget)
    throw Error::badInput("--accumulate=auto finds what fits --memory-budget; give one");
  for (const auto &[isGiven, feature] :
       {std::pair(options.epilogues != LibraryEpilogues::All, Feature::Epilogues),
        std::pair(options.tf32, Feature::Tf32)})
    if (const std::string why = isGiven ? whyNot(options.target, feature) : ""; !why.empty())
      throw Error::badInput(why);
  if (options.budgetCovers == BudgetCovers::Process && !options.memoryBudget)
    throw Error::badInput("--budget-covers=process is about --memory-budget; give one");
  if (!options.profile.empty() && !options.roofline.empty() && !programsMeasure(options.target) &&
      !absl::StartsWith(options.roofline, "cpu"))
    throw Error::badInput("--profile has the times of this machine's processor, --roofline=" +
                          options.roofline + " those of another; give one of them");
  if (options.profile == "run" && programsMeasure(options.target))
    throw Error::badInput("--profile=run measures kernels in this process, and those for " +
                          options.target +
                          " run where the GPU is: compile the model, and give --profile=FILE what "
                          "./model train --data=FILE --profile=FILE wrote there");
  if (!options.saveProfilePath.empty() && options.profile != "run")
    throw Error::badInput("--save-profile writes what --profile=run measures; add --profile=run");
  if (options.threads == 0)
    options.threads = std::max(1u, std::thread::hardware_concurrency());
  finishOffload(options.offload, options.target, options.memoryBudget.has_value(),
                options.profile == "run");
}

} // namespace stow
