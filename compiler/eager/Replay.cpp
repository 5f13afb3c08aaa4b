// The step replayed with the reference counts that eager has: nothing is computed, bytes come and go.
//
//   forward    a call's results come; what no later call reads and no gradient needs goes
//   backward   calls from the last to the first: gradients of operands come, then what the call saved and its own gradient go
//   update     what the optimizer computes on the way
#include "compiler/eager/Attention.h"
#include "compiler/eager/Operators.h"
#include "compiler/eager/Strides.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stow::eager {
namespace {

/// Bytes with owners: a storage lives as long as it has one.
class Memory {
public:
  size_t make(Bytes bytes) {
    storages.push_back({bytes, 0});
    hold(storages.size() - 1);
    return storages.size() - 1;
  }
  void hold(size_t storage) {
    if (storages[storage].owners++ == 0)
      live += storages[storage].bytes;
    highest = std::max(highest, live);
  }
  void drop(size_t storage) {
    if (--storages[storage].owners == 0)
      live -= storages[storage].bytes;
  }
  bool isShared(size_t storage) const { return storages[storage].owners > 1; }
  /// For the moment only.
  void need(Bytes bytes) { highest = std::max(highest, live + bytes); }
  Bytes peak() const { return highest; }

private:
  struct Storage {
    Bytes bytes;
    int64_t owners;
  };
  std::vector<Storage> storages;
  Bytes live = 0, highest = 0;
};

class Replay {
public:
  Replay(Program given, const OptimizerSpec &optimizer, Device device)
      : program(std::move(given)), optimizer(optimizer), device(device),
        values(this->program.tensors.size()), saved(this->program.calls.size()),
        lastRead(this->program.tensors.size()) {}

  Bytes run() {
    begin();
    for (size_t i = 0; i < program.calls.size(); ++i)
      forward(i);
    memory.drop(*values[program.loss].storage); // the value alone; what is saved of it stays
    for (size_t i = program.calls.size(); i-- > 0;)
      backward(i);
    update();
    return memory.peak();
  }

private:
  struct Value {
    std::optional<size_t> storage;
    Strides strides;
    bool hasGradient = false;      ///< one is asked for
    std::vector<size_t> gradients; ///< several only of a list's parts
  };

  Bytes bytesOf(size_t tensor) const {
    return elementCount(program.tensors[tensor].shape) * program.tensors[tensor].width;
  }

  /// Parameters, their state, buffers and the batch are there, and stay.
  void begin() {
    Bytes parameters = 0;
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      if (program.tensors[i].kind == Tensor::Kind::Result)
        continue;
      values[i].storage = memory.make(bytesOf(i));
      values[i].strides = rowMajor(program.tensors[i].shape);
      if (program.tensors[i].kind != Tensor::Kind::Parameter)
        continue;
      values[i].hasGradient = true;
      if (program.accumulates)
        values[i].gradients.push_back(memory.make(bytesOf(i)));
      parameters += bytesOf(i);
    }
    memory.make(parameters * statesOf(optimizer));
    for (size_t i = 0; i < program.calls.size(); ++i)
      for (size_t tensor : program.calls[i].reads)
        lastRead[tensor] = i;
  }

  static int64_t statesOf(const OptimizerSpec &optimizer) {
    using Kind = OptimizerSpec::Kind;
    switch (optimizer.kind) {
    case Kind::Sgd:
      return optimizer.momentum > 0;
    case Kind::Adam:
    case Kind::AdamW:
      return 2 + optimizer.amsgrad;
    case Kind::Rmsprop:
      return 1 + (optimizer.momentum > 0) + optimizer.centered;
    case Kind::Adagrad:
    case Kind::Lion:
      return 1;
    case Kind::Adafactor:
      return 0; // rows and columns of each matrix, next to nothing
    }
    return 0;
  }

  /// Tensors of a parameter's size that an update makes on its way: of one parameter after the other on a CPU, of all of them at once
  /// on a GPU, where PyTorch's default is foreach.
  static int64_t temporariesOf(const OptimizerSpec &optimizer, Device device) {
    using Kind = OptimizerSpec::Kind;
    const int64_t decayed = optimizer.weightDecay > 0 && optimizer.kind != Kind::AdamW;
    switch (optimizer.kind) {
    case Kind::Sgd:
      return decayed + optimizer.nesterov;
    case Kind::Adam:
    case Kind::AdamW:
      return decayed + (device == Device::Cuda ? 1 : 2); // the root, divided in its place or not
    case Kind::Rmsprop:
    case Kind::Adagrad:
    case Kind::Lion:
      return decayed + 1;
    case Kind::Adafactor:
      return 2;
    }
    return 0;
  }

  void bind(size_t tensor, size_t storage, Strides strides) {
    values[tensor].storage = storage;
    values[tensor].strides = std::move(strides);
  }

  void make(size_t tensor, Strides strides) {
    bind(tensor, memory.make(bytesOf(tensor)), std::move(strides));
  }

  void share(size_t tensor, size_t of, Strides strides) {
    memory.hold(*values[of].storage);
    bind(tensor, *values[of].storage, std::move(strides));
  }

  /// Strides of a result whose elements lie as those of an operand of its shape do.
  Strides alike(const Call &call, const Shape &shape) const {
    for (size_t tensor : call.reads)
      if (program.tensors[tensor].shape == shape && isDense(shape, values[tensor].strides))
        return values[tensor].strides;
    return rowMajor(shape);
  }

  /// Strides of a view; absent where it is a copy.
  std::optional<Strides> viewOf(const Call &call, const Shape &target) const {
    const Shape &shape = program.tensors[call.reads.front()].shape;
    const Strides &strides = values[call.reads.front()].strides;
    const auto rank = static_cast<int64_t>(shape.size());
    auto at = [&](int64_t dimension) {
      return static_cast<size_t>(dimension < 0 ? dimension + rank : dimension);
    };
    const std::vector<int64_t> &given = call.dimensions;
    const bool areDimensions =
        std::ranges::all_of(given, [&](int64_t dimension) { return at(dimension) < shape.size(); });
    if (call.op == "transpose" && given.size() == 2 && areDimensions) {
      Strides result = strides;
      std::swap(result[at(given[0])], result[at(given[1])]);
      return result;
    }
    if (call.op == "t") {
      Strides result = strides;
      std::ranges::reverse(result);
      return result;
    }
    if (call.op == "permute" && given.size() == shape.size() && areDimensions) {
      Strides result;
      for (int64_t dimension : given)
        result.push_back(strides[at(dimension)]);
      return result;
    }
    if (call.op == "expand" && target.size() >= shape.size()) {
      Strides result(target.size(), 0);
      const size_t added = target.size() - shape.size();
      for (size_t i = 0; i < shape.size(); ++i)
        result[added + i] = shape[i] == target[added + i] ? strides[i] : 0;
      return result;
    }
    if (call.op == "clone" || call.op == "contiguous") {
      // The exporter writes a copy behind attention, whose result eager leaves as its kernel wrote it.
      const bool isWritten = attended == call.reads.front();
      if (isWritten || strides == rowMajor(shape))
        return strides;
      return std::nullopt;
    }
    return viewed(shape, strides, target);
  }

  /// Some of the operand's bytes: the dimensions that are left keep their strides.
  Strides partOf(const Call &call, const Shape &target) const {
    const Shape &shape = program.tensors[call.reads.front()].shape;
    Strides strides = values[call.reads.front()].strides;
    if (target.size() + 1 == shape.size()) {
      const int64_t given = call.dimensions.empty() ? 0 : call.dimensions.front();
      const auto rank = static_cast<int64_t>(shape.size());
      strides.erase(strides.begin() +
                    std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank - 1));
    }
    return strides.size() == target.size() ? strides : rowMajor(target);
  }

  void makeResult(const Call &call, const Operator &rule, size_t tensor) {
    const Shape &shape = program.tensors[tensor].shape;
    switch (call.reads.empty() ? Result::New : rule.result) {
    case Result::New:
    case Result::Constant:
      return make(tensor, rowMajor(shape));
    case Result::Alike:
      if (call.op == "scaled_dot_product_attention" && shape.size() == 4) {
        // [batch, positions, heads, size], seen as [batch, heads, positions, size].
        const Strides written = rowMajor({shape[0], shape[2], shape[1], shape[3]});
        attended = tensor;
        return make(tensor, {written[0], written[2], written[1], written[3]});
      }
      return make(tensor, alike(call, shape));
    case Result::View:
      if (auto strides = viewOf(call, shape))
        return share(tensor, call.reads.front(), std::move(*strides));
      return make(tensor, rowMajor(shape));
    case Result::Part:
    case Result::Element:
      return share(tensor, call.reads.front(), partOf(call, shape));
    }
  }

  void save(size_t call, size_t storage) {
    memory.hold(storage);
    saved[call].push_back(storage);
  }

  /// A product reads its operands as matrices, or rows of them, and keeps the copies that this takes.
  void saveFactor(size_t i, size_t operand, size_t other) {
    const Shape &shape = program.tensors[operand].shape;
    const Shape &second = program.tensors[other].shape;
    const Strides &strides = values[operand].strides;
    if (shape.size() > 2) {
      Shape matrices = {1, shape[shape.size() - 2], shape.back()};
      if (second.size() <= 2) {
        matrices = {matrices[1], matrices[2]};
        for (size_t d = 0; d + 2 < shape.size(); ++d)
          matrices[0] *= shape[d];
      } else {
        Shape batch(shape.begin(), shape.end() - 2), otherBatch(second.begin(), second.end() - 2);
        bool isBroadcast = batch.size() < otherBatch.size();
        for (size_t d = 0; d < std::min(batch.size(), otherBatch.size()); ++d)
          isBroadcast |= batch[batch.size() - 1 - d] < otherBatch[otherBatch.size() - 1 - d];
        for (int64_t extent : batch)
          matrices[0] *= extent;
        if (isBroadcast) {
          int64_t count = 1;
          for (int64_t extent : otherBatch)
            count *= extent;
          saved[i].push_back(
              memory.make(count * matrices[1] * matrices[2] * program.tensors[operand].width));
          return;
        }
      }
      if (!viewed(shape, strides, matrices)) {
        saved[i].push_back(memory.make(bytesOf(operand)));
        return;
      }
    }
    save(i, *values[operand].storage);
  }

  void saveOperand(size_t i, const Call &call, size_t number) {
    if (number >= call.reads.size())
      return;
    const size_t operand = call.reads[number];
    if (call.op == "scaled_dot_product_attention" && number == 3 &&
        program.tensors[operand].width == 1) {
      // A mask of choices is turned into one of numbers, which is kept.
      saved[i].push_back(memory.make(elementCount(program.tensors[operand].shape) *
                                     program.tensors[call.reads[0]].width));
      return;
    }
    if ((call.op == "matmul" || call.op == "linear") && number < 2 && call.reads.size() >= 2)
      saveFactor(i, operand, call.reads[1 - number]);
    else
      save(i, *values[operand].storage);
  }

  void forward(size_t i) {
    const Call &call = program.calls[i];
    const Operator &rule = operatorOf(call.op);
    bool wantsGradient = false;
    for (size_t n = 0; n < call.reads.size(); ++n)
      wantsGradient |= values[call.reads[n]].hasGradient && gradientOf(rule, n) != '-';
    for (size_t tensor : call.results)
      makeResult(call, rule, tensor);
    if (wantsGradient && rule.result != Result::Constant && !call.results.empty()) {
      values[call.results.front()].hasGradient = true;
      for (char which : rule.saves) {
        if (which == 'r')
          save(i, *values[call.results.front()].storage);
        else if (which == 'o')
          for (size_t n = 0; n < std::min<size_t>(call.reads.size(), 2); ++n) {
            if (call.reads.size() > 1 && values[call.reads[1 - n]].hasGradient)
              saveOperand(i, call, n);
          }
        else
          saveOperand(i, call, static_cast<size_t>(which - '0'));
      }
      if (rule.saved)
        saved[i].push_back(memory.make(rule.saved(program, call, device)));
    }
    release(call.results, i);
    release(call.reads, i);
  }

  /// Drops the results of calls that nobody reads behind call `i`.
  void release(const std::vector<size_t> &tensors, size_t i) {
    for (size_t n = 0; n < tensors.size(); ++n) {
      const size_t tensor = tensors[n];
      const bool isRepeated = std::find(tensors.begin(), tensors.begin() + static_cast<int64_t>(n),
                                        tensor) != tensors.begin() + static_cast<int64_t>(n);
      if (program.tensors[tensor].kind == Tensor::Kind::Result && lastRead[tensor] <= i &&
          tensor != program.loss && !isRepeated)
        memory.drop(*values[tensor].storage);
    }
  }

  void backward(size_t i) {
    const Call &call = program.calls[i];
    const Operator &rule = operatorOf(call.op);
    if (call.results.empty() || !values[call.results.front()].hasGradient)
      return;
    std::vector<size_t> incoming;
    for (size_t tensor : call.results)
      for (size_t gradient : std::exchange(values[tensor].gradients, {}))
        incoming.push_back(gradient);
    if (call.results.front() == program.loss)
      incoming.push_back(memory.make(bytesOf(program.loss)));
    std::vector<std::pair<size_t, size_t>> outgoing;
    if (!incoming.empty())
      for (size_t n = 0; n < call.reads.size(); ++n)
        if (values[call.reads[n]].hasGradient && gradientOf(rule, n) != '-')
          outgoing.emplace_back(call.reads[n],
                                gradient(call, gradientOf(rule, n), n, incoming.front()));
    for (size_t storage : std::exchange(saved[i], {}))
      memory.drop(storage);
    for (size_t storage : incoming)
      memory.drop(storage);
    for (const auto &[tensor, storage] : outgoing)
      deliver(tensor, storage, rule.result == Result::Element);
  }

  size_t gradient(const Call &call, char kind, size_t number, size_t incoming) {
    const size_t operand = call.reads[number];
    const bool isBroadcast =
        program.tensors[operand].shape != program.tensors[call.results.front()].shape;
    if (kind == 'n' || (kind == 's' && isBroadcast))
      return memory.make(bytesOf(operand));
    memory.hold(incoming);
    return incoming;
  }

  /// A gradient comes to its tensor: added in place where nobody else has what is there.
  void deliver(size_t tensor, size_t storage, bool isPart) {
    std::vector<size_t> &there = values[tensor].gradients;
    const bool isLeaf = program.tensors[tensor].kind == Tensor::Kind::Parameter;
    if (there.empty() && isLeaf && memory.isShared(storage)) {
      there.push_back(memory.make(bytesOf(tensor)));
      memory.drop(storage);
    } else if (there.empty() || isPart) {
      there.push_back(storage);
    } else {
      if (!isLeaf && memory.isShared(there.front())) {
        const size_t sum = memory.make(bytesOf(tensor));
        memory.drop(std::exchange(there.front(), sum));
      }
      memory.drop(storage);
    }
  }

  void update() {
    Bytes all = 0, largest = 0;
    for (size_t i = 0; i < program.tensors.size(); ++i)
      if (program.tensors[i].kind == Tensor::Kind::Parameter) {
        all += bytesOf(i);
        largest = std::max(largest, bytesOf(i));
      }
    memory.need(temporariesOf(optimizer, device) * (device == Device::Cuda ? all : largest));
  }

  const Program program;
  const OptimizerSpec &optimizer;
  const Device device;
  Memory memory;
  std::vector<Value> values;
  std::vector<std::vector<size_t>> saved; ///< by call
  std::vector<size_t> lastRead;           ///< by tensor: the last call
  std::optional<size_t> attended;         ///< the last result of attention
};

} // namespace

Device requireDevice(const std::string &name) {
  if (name == "cpu")
    return Device::Cpu;
  if (name == "cuda")
    return Device::Cuda;
  throw Error::internal("what PyTorch eager takes on \"" + name +
                        "\" is not known; expected cpu or cuda");
}

Bytes peakOf(const Program &program, const OptimizerSpec &optimizer, Device device) {
  return Replay(withAttentionExpanded(program, device), optimizer, device).run();
}

} // namespace stow::eager
