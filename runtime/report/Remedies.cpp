#include "runtime/report/Remedies.h"

#include "runtime/base/Bytes.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Quantization.h"
#include "runtime/format/PrintableText.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace stow {

const char *nameOf(Changes changes) {
  return changes == Changes::Nothing    ? "no"
         : changes == Changes::LastBits ? "in the last bits"
                                        : "yes";
}

Changes parseChanges(const std::string &name) {
  for (Changes changes : {Changes::Nothing, Changes::LastBits, Changes::Results})
    if (name == nameOf(changes))
      return changes;
  throw Error::badInput("expected no, in the last bits or yes, found '" + name + "'");
}

namespace {

constexpr const char *kStateAlone = " (its state alone; the rest is planned anew)";

/// `name` as a word for the shell.
std::string shellWord(const std::string &name) {
  std::string word = "'";
  for (char c : printableText(name, 1000))
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Not training the parameter with the most optimizer state.
Remedy frozenParameter(const GraphPlan &graph) {
  Remedy best;
  for (const PlannedBuffer &parameter : graph.buffers) {
    if (parameter.kind != BufferKind::Parameter)
      continue;
    Bytes state = 0;
    for (const PlannedBuffer &buffer : graph.buffers)
      if (buffer.kind == BufferKind::Optimizer && buffer.name.starts_with(parameter.name + "."))
        state += buffer.size;
    if (state > best.gain)
      best = {state,
              "not training the largest parameter: --freeze=" + shellWord(parameter.name) +
                  kStateAlone,
              Changes::Results};
  }
  return best;
}

/// True for a matrix that neither rows by index nor convolutions read: --optimizer-state stores its state in 8 bits.
bool isMatrixOfProducts(const GraphPlan &graph, size_t parameter) {
  return std::ranges::none_of(graph.steps, [&](const PlannedStep &step) {
    return (step.op.starts_with("embedding") || step.op.starts_with("conv2d")) &&
           std::ranges::count(step.reads, static_cast<int64_t>(parameter)) > 0;
  });
}

/// State in 8 bits: a quarter of it, and a scale for each block.
Remedy stateInEightBits(const GraphPlan &graph) {
  Bytes gain = 0;
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const PlannedBuffer &parameter = graph.buffers[i];
    if (parameter.kind != BufferKind::Parameter || !isMatrixOfProducts(graph, i))
      continue;
    for (const PlannedBuffer &state : graph.buffers)
      if (state.kind == BufferKind::Optimizer && state.dtype == DType::F32 &&
          state.name.starts_with(parameter.name + ".") && state.shape == parameter.shape &&
          state.shape.size() >= 2 && isWorthEightBits(elementCount(state.shape)))
        gain += state.size - state.size / 4 - state.size / kStateBlock;
  }
  return {
      gain,
      concat("the optimizer's state of matrices in 8 bits: --optimizer-state=8bit", kStateAlone),
      Changes::Results};
}

} // namespace

std::vector<Remedy> stateRemedies(const Plan &plan, const std::string &optimizer) {
  std::vector<Remedy> list;
  if (Breakdown parts = breakdownAtPeak(plan); parts.optimizer > 0)
    list.push_back({parts.optimizer,
                    "an optimizer without state: --optimizer=sgd:lr=..." +
                        (optimizer.empty() ? "" : " instead of " + optimizer) + kStateAlone,
                    Changes::Results});
  if (const GraphPlan *train = findStepGraph(plan))
    for (Remedy remedy : {frozenParameter(*train), stateInEightBits(*train)})
      if (remedy.gain > 0)
        list.push_back(std::move(remedy));
  return list;
}

std::optional<Remedy> chunkedLoss(const Plan &plan) {
  constexpr int64_t chunks = 8;
  const GraphPlan *train = findGraph(plan, GraphRole::Train);
  if (!train || peakGraph(plan) != static_cast<size_t>(train - plan.graphs.data()))
    return std::nullopt;
  std::set<int64_t> used;
  std::set<std::string> found;
  for (const PlannedStep &step : train->steps) {
    if (step.op != "cross_entropy_rows_grad" && step.op != "log_softmax_grad")
      continue;
    if (!found.insert(step.op).second)
      return std::nullopt; // in chunks already, or several heads
    used.insert(step.reads.begin(), step.reads.end());
    used.insert(step.writes.begin(), step.writes.end());
  }
  Bytes largest = 0, live = 0;
  for (int64_t number : used)
    largest = std::max(largest, train->buffers[static_cast<size_t>(number)].size);
  for (int64_t number : used) {
    const PlannedBuffer &buffer = train->buffers[static_cast<size_t>(number)];
    if (buffer.size == largest && buffer.begin <= train->peakStep && train->peakStep < buffer.end)
      live += buffer.size;
  }
  if (live * 100 < plan.arenaBytes)
    return std::nullopt;
  return Remedy{live - live / chunks,
                concat("the head and its loss in chunks of rows: --loss-chunks=", chunks,
                       " (the logits at the peak alone; the rest is planned anew)"),
                Changes::LastBits};
}

std::optional<Remedy> sixteenBits(const Plan &plan) {
  const std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return std::nullopt;
  for (const GraphPlan &graph : plan.graphs)
    for (const PlannedBuffer &buffer : graph.buffers)
      if (is16Bit(buffer.dtype))
        return std::nullopt;
  Bytes activations = 0;
  for (const PlannedBuffer *buffer : liveAtPeak(plan, plan.graphs[*which]))
    if (buffer->kind == BufferKind::Activation && buffer->dtype == DType::F32)
      activations += buffer->size;
  const Bytes gain = activations / 2;
  if (gain * 100 < plan.arenaBytes)
    return std::nullopt;
  return Remedy{gain,
                "activations in 16 bits: --precision=bf16 (those at the peak alone; the rest is "
                "planned anew)",
                Changes::Results};
}

std::optional<Remedy> batchInParts(const Plan &plan, int64_t parts, Bytes gain) {
  const GraphPlan *train = findStepGraph(plan);
  if (!train || plan.batchesPerStep > 1)
    return std::nullopt;
  Bytes sums = 0;
  for (const PlannedBuffer &buffer : train->buffers)
    if (buffer.kind == BufferKind::Parameter)
      sums += buffer.size;
  if (gain <= sums)
    return std::nullopt;
  return Remedy{gain - sums,
                concat("the same batch in ", parts,
                       " parts whose gradients are added: --accumulate=", parts, " (their sums, ",
                       formatBytes(sums), ", are counted; the rest is planned anew)"),
                Changes::Results};
}

int64_t batchOf(const Plan &plan) {
  if (const GraphPlan *train = findStepGraph(plan))
    for (const PlannedBuffer &buffer : train->buffers)
      if (buffer.kind == BufferKind::Input && !buffer.shape.empty())
        return buffer.shape.front() * plan.batchesPerStep;
  return 0;
}

Bytes bytesThatGrow(const Plan &plan, int64_t batch) {
  std::optional<size_t> which = peakGraph(plan);
  if (!which)
    return 0;
  const GraphPlan &graph = plan.graphs[*which];
  const int64_t rows = std::max<int64_t>(batch / plan.batchesPerStep, 1);
  Bytes bytes = 0;
  for (const PlannedBuffer *buffer : liveAtPeak(plan, graph))
    if (!isState(buffer->kind) && buffer->kind != BufferKind::Workspace && !buffer->shape.empty() &&
        buffer->shape.front() % rows == 0)
      bytes += buffer->size;
  return bytes;
}

Bytes scratchAtPeak(const Plan &plan) {
  std::optional<size_t> which = peakGraph(plan);
  Bytes bytes = 0;
  if (which)
    for (const PlannedBuffer *buffer : liveAtPeak(plan, plan.graphs[*which]))
      if (buffer->kind == BufferKind::Workspace)
        bytes += buffer->size;
  return bytes;
}

std::vector<Remedy> remediesOf(const Plan &plan) {
  std::vector<Remedy> list = stateRemedies(plan, "");
  if (std::optional<Remedy> chunked = chunkedLoss(plan))
    list.push_back(std::move(*chunked));
  if (std::optional<Remedy> narrow = sixteenBits(plan))
    list.push_back(std::move(*narrow));
  const int64_t batch = batchOf(plan);
  if (const Bytes growing = batch > 1 ? bytesThatGrow(plan, batch) : 0; growing > 0) {
    list.push_back({growing / 2,
                    concat("half the batch, about: --batch=", batch / 2, " instead of ", batch,
                           " (stowage max-batch finds the largest that fits)"),
                    Changes::Results});
    if (std::optional<Remedy> parts = batchInParts(plan, 2, growing / 2); parts && batch % 2 == 0)
      list.push_back(std::move(*parts));
  }
  sortRemedies(list);
  return list;
}

void sortRemedies(std::vector<Remedy> &remedies) {
  std::ranges::sort(remedies, [](const Remedy &a, const Remedy &b) {
    return std::tie(b.gain, a.text) < std::tie(a.gain, b.text);
  });
}

std::string renderRemedies(const std::vector<Remedy> &remedies) {
  std::string text;
  int number = 0;
  for (const Remedy &remedy : remedies)
    text +=
        concat("  ", ++number, ". ", remedy.text, "\n     gains ", formatBytesExact(remedy.gain),
               "; changes results? ", nameOf(remedy.changes), "\n");
  return text;
}

} // namespace stow
