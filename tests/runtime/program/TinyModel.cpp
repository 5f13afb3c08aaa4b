#include "tests/runtime/program/TinyModel.h"

#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stow::test {

std::function<void(int64_t)> afterTinyStep;

namespace {

/// What kernels read of the model; constants in real programs, here one block in the arena.
struct Sizes {
  int64_t batch, features, classes;
};

template <typename T> T *as(char *address) { return reinterpret_cast<T *>(address); }

} // namespace

/// One task per sample: logits = x W^T. Operands: sizes, x, W, logits.
void tinyForward(int64_t begin, int64_t end, char *const *arguments) {
  const auto &sizes = *as<Sizes>(arguments[0]);
  const auto *x = as<float>(arguments[1]);
  const auto *w = as<float>(arguments[2]);
  auto *logits = as<float>(arguments[3]);
  for (int64_t b = begin; b < end; ++b)
    for (int64_t c = 0; c < sizes.classes; ++c) {
      float sum = 0;
      for (int64_t f = 0; f < sizes.features; ++f)
        sum += x[b * sizes.features + f] * w[c * sizes.features + f];
      logits[b * sizes.classes + c] = sum;
    }
}

/// One task: mean loss, and the logits turned into their gradient. Operands: sizes, logits, y,
/// loss.
void tinyCrossEntropy(int64_t, int64_t, char *const *arguments) {
  const auto &sizes = *as<Sizes>(arguments[0]);
  auto *logits = as<float>(arguments[1]);
  const auto *y = as<int64_t>(arguments[2]);
  float loss = 0;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    float *row = logits + b * sizes.classes;
    float largest = row[0], sum = 0;
    for (int64_t c = 1; c < sizes.classes; ++c)
      largest = std::fmax(largest, row[c]);
    float picked = row[y[b]] - largest;
    for (int64_t c = 0; c < sizes.classes; ++c)
      sum += row[c] = std::exp(row[c] - largest);
    loss += std::log(sum) - picked;
    for (int64_t c = 0; c < sizes.classes; ++c)
      row[c] = (row[c] / sum - static_cast<float>(c == y[b])) / static_cast<float>(sizes.batch);
  }
  *as<float>(arguments[3]) = loss / static_cast<float>(sizes.batch);
}

/// As tinyCrossEntropy for mean squared error; y is f32 [batch, classes].
void tinyMeanSquares(int64_t, int64_t, char *const *arguments) {
  const auto &sizes = *as<Sizes>(arguments[0]);
  auto *outputs = as<float>(arguments[1]);
  const auto *y = as<float>(arguments[2]);
  int64_t count = sizes.batch * sizes.classes;
  float loss = 0;
  for (int64_t i = 0; i < count; ++i) {
    float difference = outputs[i] - y[i];
    loss += difference * difference / static_cast<float>(count);
    outputs[i] = 2 * difference / static_cast<float>(count);
  }
  *as<float>(arguments[3]) = loss;
}

/// One task: momentum update. Operands: sizes, gradient of the logits, x, W, V, lr, step, seed.
void tinyUpdate(int64_t, int64_t, char *const *arguments) {
  const auto &sizes = *as<Sizes>(arguments[0]);
  const auto *gradient = as<float>(arguments[1]);
  const auto *x = as<float>(arguments[2]);
  auto *w = as<float>(arguments[3]);
  auto *v = as<float>(arguments[4]);
  float lr = *as<float>(arguments[5]);
  int64_t step = *as<int64_t>(arguments[6]);
  int64_t seed = *as<int64_t>(arguments[7]);
  float noise = 1e-4f * static_cast<float>(seed % 1000) / 1000;
  for (int64_t c = 0; c < sizes.classes; ++c)
    for (int64_t f = 0; f < sizes.features; ++f) {
      float sum = noise;
      for (int64_t b = 0; b < sizes.batch; ++b)
        sum += gradient[b * sizes.classes + c] * x[b * sizes.features + f];
      float &velocity = v[c * sizes.features + f];
      velocity = 0.9f * velocity + sum;
      w[c * sizes.features + f] -= lr * velocity;
    }
  static int64_t lastStep = 0; // a guarded device runs every command twice
  if (std::exchange(lastStep, step) != step && afterTinyStep)
    afterTinyStep(step);
}

namespace {

const StowKernelFn kernels[] = {tinyForward, tinyCrossEntropy, tinyMeanSquares, tinyUpdate};

/// Places tensors one after the other and remembers them for the plan.
class Arena {
public:
  Operand add(const std::string &name, BufferKind kind, DType dtype, Shape shape,
              Layout layout = {}) {
    Operand place{top, dtype, shape, layout};
    PlannedBuffer buffer;
    buffer.name = name;
    buffer.kind = kind;
    buffer.dtype = dtype;
    buffer.shape = shape;
    buffer.source = "tiny";
    buffer.offset = top;
    buffer.size = storedBytes(layout, shape, dtype);
    buffer.logicalSize = storedBytes({}, shape, dtype);
    top = alignUp(top + buffer.size, 64);
    buffers.push_back(buffer);
    return place;
  }

  Bytes size() const { return top; }

  GraphPlan plan(GraphRole role, std::vector<std::string> steps) const {
    GraphPlan graph;
    graph.role = role;
    graph.stepCount = static_cast<int64_t>(steps.size());
    for (std::string &name : steps) {
      graph.steps.emplace_back();
      graph.steps.back().name = graph.steps.back().op = std::move(name);
    }
    graph.buffers = buffers;
    for (PlannedBuffer &buffer : graph.buffers) {
      buffer.end = graph.stepCount;
      graph.livePeakBytes += buffer.size;
    }
    graph.lowerBoundBytes = top;
    return graph;
  }

private:
  Bytes top = 0;
  std::vector<PlannedBuffer> buffers;
};

Command kernel(int64_t index, const std::string &name, int64_t tasks,
               std::vector<Operand> operands) {
  Command command;
  command.op = CommandOp::Kernel;
  command.name = name;
  command.kernel = index;
  command.tasks = tasks;
  command.kind = "tiny";
  command.bytes = 1; // too little to share between threads
  command.operands = std::move(operands);
  return command;
}

/// Takes the batch away behind the forward and the gradient behind the loss, both at once, and has them back
/// for the update.
void addCopies(Program &program, const Operand &x, const Operand &logits) {
  auto copy = [](CommandOp op, const Operand &buffer, int64_t number, Bytes slowOffset) {
    Command command;
    command.op = op;
    command.kind = nameOf(op);
    command.name = number % 2 == 0 ? "the batch" : "the gradient";
    command.operands = {buffer};
    command.ints["copy"] = {number};
    if (op != CommandOp::AwaitCopy)
      command.ints["slow_offset"] = {slowOffset};
    return command;
  };
  const Bytes second = alignUp(storedBytes(x.layout, x.shape, x.dtype), kSlowAlignment);
  program.slowBytes =
      second + alignUp(storedBytes(logits.layout, logits.shape, logits.dtype), kSlowAlignment);
  std::vector<Command> &commands = program.graphs[0].commands;
  const Command forward = commands[0], loss = commands[1], update = commands[2];
  commands = {forward,
              copy(CommandOp::CopyOut, x, 0, 0),
              loss,
              copy(CommandOp::CopyOut, logits, 1, second),
              copy(CommandOp::AwaitCopy, x, 0, 0),
              copy(CommandOp::AwaitCopy, logits, 1, 0),
              copy(CommandOp::CopyIn, x, 2, 0),
              copy(CommandOp::CopyIn, logits, 3, second),
              copy(CommandOp::AwaitCopy, x, 2, 0),
              copy(CommandOp::AwaitCopy, logits, 3, 0),
              update};
  commands[4].dying = {x};
  commands[5].dying = {logits};
}

/// The momentum lies behind whatever else slow memory holds. It is fetched beside the loss, and sent behind the update, which
/// commands a run ends with.
void sendMomentum(Program &program, const Operand &v) {
  const Bytes slowOffset = program.slowBytes;
  program.slowBytes += alignUp(storedBytes(v.layout, v.shape, v.dtype), kSlowAlignment);
  std::vector<Command> &commands = program.graphs[0].commands;
  const auto first =
      static_cast<int64_t>(std::ranges::count_if(commands, [](const Command &command) {
        return command.op == CommandOp::CopyOut || command.op == CommandOp::CopyIn;
      }));
  auto copy = [&](CommandOp op, int64_t number) {
    Command command;
    command.op = op;
    command.kind = nameOf(op);
    command.name = "the momentum";
    command.operands = {v};
    command.ints["copy"] = {first + number};
    if (op != CommandOp::AwaitCopy)
      command.ints["slow_offset"] = {slowOffset};
    return command;
  };
  commands.insert(commands.begin() + 1, copy(CommandOp::CopyIn, 0));
  commands.insert(commands.end() - 1, copy(CommandOp::AwaitCopy, 0));
  commands.push_back(copy(CommandOp::CopyOut, 1));
  commands.push_back(copy(CommandOp::AwaitCopy, 1));
  commands.back().dying = {v};
  auto state = std::ranges::find(program.state, "w.momentum", &StateTensor::name);
  state->place.offset = slowBeginOf(program.plan.arenaBytes) + slowOffset;
}

/// The sizes lie behind that. They are fetched in front of the first command, again behind the loss, and never sent.
void fetchSizes(Program &program, const Operand &sizes) {
  const Bytes slowOffset = program.slowBytes;
  program.slowBytes += kSlowAlignment;
  for (GraphProgram &graph : program.graphs) {
    std::vector<Command> &commands = graph.commands;
    auto number = static_cast<int64_t>(std::ranges::count_if(commands, [](const Command &command) {
      return command.op == CommandOp::CopyOut || command.op == CommandOp::CopyIn;
    }));
    auto fetchBefore = [&](auto place) {
      Command copy;
      copy.op = CommandOp::CopyIn;
      copy.kind = nameOf(copy.op);
      copy.name = "the sizes";
      copy.operands = {sizes};
      copy.ints["copy"] = {number++};
      copy.ints["slow_offset"] = {slowOffset};
      place = commands.insert(place, copy);
      copy.op = CommandOp::AwaitCopy;
      copy.kind = nameOf(copy.op);
      copy.ints.erase("slow_offset");
      commands.insert(place + 1, copy);
    };
    if (graph.role == GraphRole::Train)
      fetchBefore(std::ranges::find(commands, "update", &Command::name));
    fetchBefore(commands.begin());
  }
  auto state = std::ranges::find(program.state, "sizes", &StateTensor::name);
  state->kind = BufferKind::Frozen;
  state->place.offset = slowBeginOf(program.plan.arenaBytes) + slowOffset;
}

/// The model's sizes, as constants of the executable.
const Sizes *constantSizes(const TinyOptions &options) {
  static Sizes sizes;
  sizes = {options.batch, options.features, options.classes};
  return &sizes;
}

ProgramImage image;

} // namespace

ProgramImage tinyImage() { return image; }

Program makeTinyModel(const TinyOptions &options) {
  int64_t batch = options.batch, features = options.features, classes = options.classes;
  const Sizes *sizes = constantSizes(options);
  image = {kernels, {reinterpret_cast<const char *>(sizes), sizeof(Sizes)}};
  using Kind = BufferKind;

  Arena arena;
  Operand w = arena.add("w", Kind::Parameter, DType::F32, {classes, features});
  Operand blocked =
      arena.add("blocked", Kind::Parameter, DType::F32, {6, 4}, parseLayout("0,1;0:4"));
  Operand v = arena.add("w.momentum", Kind::Optimizer, DType::F32, {classes, features});
  Operand shape = arena.add("sizes", Kind::Statistic, DType::I64, {3});
  Bytes persistent = arena.size();
  Operand x = arena.add("x", Kind::Input, DType::F32, {batch, 1, features / 8, 8});
  Operand y = options.regression ? arena.add("y", Kind::Input, DType::F32, {batch, classes})
                                 : arena.add("y", Kind::Input, DType::I64, {batch});
  Operand lr = arena.add("lr", Kind::Input, DType::F32, {});
  Operand step = arena.add("step", Kind::Input, DType::I64, {});
  Operand seed = arena.add("seed", Kind::Input, DType::I64, {});
  Operand logits = arena.add("logits", Kind::Activation, DType::F32, {batch, classes});
  Operand loss = arena.add("loss", Kind::Output, DType::F32, {});
  Operand output = arena.add("output", Kind::Output, DType::F32, {batch, classes});

  Program program;
  program.model = "tiny";
  program.batch = batch;
  program.threads = 2;
  program.loss = parseLoss(options.regression ? "mse" : "cross-entropy");
  program.optimizer = parseOptimizer("sgd:lr=0.5,momentum=0.9");
  program.state = {
      {"w", Kind::Parameter, w, {Init::Kind::Uniform, -0.1, 0.1, 0}, true},
      {"blocked", Kind::Parameter, blocked, {Init::Kind::Normal, 0, 1, 0}, true},
      {"w.momentum", Kind::Optimizer, v, {Init::Kind::Constant, 0, 0, 0}, true},
      {"sizes", Kind::Statistic, shape, {Init::Kind::Data, 0, 0, 0}, true},
  };
  int64_t lossKernel = options.regression ? 2 : 1;
  program.graphs = {{GraphRole::Train,
                     {{"x", InputRole::Data, x},
                      {"y", InputRole::Target, y},
                      {"lr", InputRole::LearningRate, lr},
                      {"step", InputRole::Step, step},
                      {"seed", InputRole::Seed, seed}},
                     {{"loss", loss}},
                     {kernel(0, "matmul", batch, {shape, x, w, logits}),
                      kernel(lossKernel, "loss", 1, {shape, logits, y, loss}),
                      kernel(3, "update", 1, {shape, logits, x, w, v, lr, step, seed})}},
                    {GraphRole::Eval,
                     {{"x", InputRole::Data, x}, {"y", InputRole::Target, y}},
                     {{"loss", loss}, {"output", output}},
                     {kernel(0, "matmul", batch, {shape, x, w, logits}),
                      kernel(0, "matmul", batch, {shape, x, w, output}),
                      kernel(lossKernel, "loss", 1, {shape, logits, y, loss})}}};
  program.graphs[0].commands[2].dying = {logits, x, lr, step, seed};
  program.graphs[1].commands[2].dying = {logits};
  if (options.travels)
    addCopies(program, x, logits);

  Plan &plan = program.plan;
  plan.model = "tiny";
  plan.arenaBytes = arena.size();
  if (options.hasStateAway)
    sendMomentum(program, v);
  if (options.hasFrozenAway)
    fetchSizes(program, shape);
  plan.persistentBytes = persistent;
  plan.lowerBoundBytes = arena.size();
  plan.status = "optimal";
  plan.outsideArenaBytes = 64 << 20;
  for (const GraphProgram &graph : program.graphs) {
    std::vector<std::string> steps;
    for (const Command &command : graph.commands)
      steps.push_back(command.op == CommandOp::Kernel ? command.name
                                                      : std::string(nameOf(command.op)));
    plan.graphs.push_back(arena.plan(graph.role, steps));
  }
  plan.livePeakBytes = plan.graphs[0].livePeakBytes;
  return program;
}

} // namespace stow::test
