// Attention by tiles: what the loops of AttentionLoops.h need of a command.
#include "runtime/base/Parallel.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Primitive.h"
#include "runtime/host/loops/AttentionLoops.h"

namespace stow::host {
namespace {

const char *loopsName() {
  static const std::string name = std::string("stow_attention:") + attentionInstructions();
  return name.c_str();
}

/// The operands of a call by their positions; mask, documents and seed where there are any.
struct Positions {
  size_t q = 0, k = 1, v = 2, y, lse;
  std::optional<size_t> mask, queryDocuments, keyDocuments, seed, dy, dq, dk, dv;
};

/// Names of the operands and their positions: `first` of them, then mask, documents and seed, then `last`.
std::vector<std::string> namesOf(const Command &command, std::vector<std::string> first,
                                 const std::vector<std::string> &last, Positions &positions) {
  auto has = [&](const char *name) {
    auto found = command.ints.find(name);
    return found != command.ints.end() && found->second.at(0) != 0;
  };
  if (has("has_mask")) {
    positions.mask = first.size();
    first.push_back("mask");
  }
  if (has("has_documents")) {
    positions.queryDocuments = first.size();
    first.push_back("query_documents");
    positions.keyDocuments = first.size();
    first.push_back("key_documents");
  }
  if (has("has_seed")) {
    positions.seed = first.size();
    first.push_back("seed");
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

Matrices matricesAt(const Call &call, size_t index) {
  const Operand &operand = call.operand(index);
  auto found = Matrices::of(operand.shape, operand.layout, operand.dtype);
  if (!found || !(operand.dtype == DType::F32 || is16Bit(operand.dtype)))
    call.fail(call.describe(index) +
              " must be a tensor of matrices of f32 or 16 bits, without blocks");
  return *found;
}

/// One row for each query, with its two numbers.
Matrices sumsAt(const Call &call, size_t index) {
  if (call.operand(index).dtype != DType::F32 || call.shape(index).back() != 2)
    call.fail(call.describe(index) + " must be f32, with two columns");
  return matricesAt(call, index);
}

/// Extents of the leading dimensions of the scores.
Shape leadingOf(const Call &call) {
  Shape leading = call.shape(0);
  leading.resize(leading.size() - 2);
  return leading;
}

Matrices documentsAt(const Call &call, size_t index) {
  const Operand &numbers = call.operand(index);
  auto found =
      Matrices::repeatedColumns(numbers.shape, numbers.layout, numbers.dtype, leadingOf(call));
  if (!found || !(numbers.dtype == DType::I32 || numbers.dtype == DType::I64))
    call.fail(call.describe(index) + " must be i32 or i64, without blocks");
  return *found;
}

void readMask(const Call &call, size_t index, AttentionSpace &space) {
  const Operand &mask = call.operand(index);
  space.mask = Matrices::repeated(mask.shape, mask.layout, mask.dtype, leadingOf(call));
  space.isBoolean = mask.dtype == DType::U8 || mask.dtype == DType::I1;
  if (!space.mask || !(space.isBoolean || mask.dtype == DType::F32))
    call.fail(call.describe(index) + " must be i1 or f32, without blocks");
}

AttentionSpace spaceOf(const Call &call, const Command &command, const Positions &at) {
  AttentionSpace space;
  const Shape &q = call.shape(at.q), &k = call.shape(at.k), &v = call.shape(at.v);
  space.q = matricesAt(call, at.q);
  space.k = matricesAt(call, at.k);
  space.v = matricesAt(call, at.v);
  space.y = matricesAt(call, at.y);
  space.lse = sumsAt(call, at.lse);
  space.queries = q.end()[-2], space.keys = k.end()[-2];
  space.depth = q.back(), space.width = v.back();
  space.heads = elementCount(k) / (space.keys * space.depth);
  space.shared = elementCount(q) / (space.queries * space.depth) / space.heads;
  space.scale = call.number("scale");
  if (command.ints.contains("diagonal"))
    space.diagonal = call.integer("diagonal");
  if (command.ints.contains("window"))
    space.window = call.integer("window");
  space.zeroRows = call.integer("zero_rows") != 0;
  space.ratio = call.number("ratio");
  space.stream = call.integer("stream");
  if (at.mask)
    readMask(call, *at.mask, space);
  if (at.keyDocuments) {
    space.queryDocuments = documentsAt(call, *at.queryDocuments);
    space.keyDocuments = documentsAt(call, *at.keyDocuments);
  }
  if (at.seed)
    space.hasWideSeed = call.operand(*at.seed).dtype == DType::I64;
  if (at.dy) {
    space.dy = matricesAt(call, *at.dy);
    space.dq = matricesAt(call, *at.dq);
    space.dk = matricesAt(call, *at.dk);
    space.dv = matricesAt(call, *at.dv);
  }
  return space;
}

/// The operands as they lie, which the library sees as bytes; nothing is left to choose.
std::vector<Argument> argumentsOf(const Call &call, size_t count) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < count; ++i) {
    const Operand &operand = call.operand(i);
    const Bytes bytes = storedBytes(operand.layout, operand.shape, operand.dtype);
    arguments.push_back({i, 0, descOf(DType::U8, {bytes}, {}), operand.layout});
  }
  return arguments;
}

AttentionTensors tensorsAt(const Positions &at, const std::vector<char *> &addresses) {
  auto where = [&](std::optional<size_t> index) { return index ? addresses[*index] : nullptr; };
  AttentionTensors tensors = {};
  tensors.q = where(at.q), tensors.k = where(at.k), tensors.v = where(at.v);
  tensors.y = where(at.y), tensors.lse = where(at.lse);
  tensors.queryDocuments = where(at.queryDocuments);
  tensors.keyDocuments = where(at.keyDocuments);
  tensors.mask = where(at.mask), tensors.seed = where(at.seed);
  tensors.dy = where(at.dy), tensors.dq = where(at.dq);
  tensors.dk = where(at.dk), tensors.dv = where(at.dv);
  return tensors;
}

} // namespace

Preparation prepareAttention(const Command &command, const std::vector<bool> &anyLayout) {
  Positions at;
  const auto names = namesOf(command, {"q", "k", "v"}, {"y", "lse"}, at);
  const Call call(command, anyLayout, names);
  at.y = names.size() - 2, at.lse = names.size() - 1;
  const AttentionSpace space = spaceOf(call, command, at);
  auto run = [space, at](const std::vector<char *> &addresses, char *scratch, int64_t threads) {
    attend(space, tensorsAt(at, addresses), scratch, threads);
  };
  const int64_t slots = std::min(currentThreads(), space.forwardTasks());
  return {{},
          argumentsOf(call, names.size()),
          Loops{loopsName(), slots * space.forwardScratchBytes(), run}};
}

Preparation prepareAttentionGradient(const Command &command, const std::vector<bool> &anyLayout) {
  Positions at;
  const auto names = namesOf(command, {"q", "k", "v", "y", "lse", "dy"}, {"dq", "dk", "dv"}, at);
  const Call call(command, anyLayout, names);
  at.y = 3, at.lse = 4, at.dy = 5;
  at.dq = names.size() - 3, at.dk = names.size() - 2, at.dv = names.size() - 1;
  const AttentionSpace space = spaceOf(call, command, at);
  auto run = [space, at](const std::vector<char *> &addresses, char *scratch, int64_t threads) {
    attendGradient(space, tensorsAt(at, addresses), scratch, threads);
  };
  const int64_t slots = std::min(currentThreads(), space.heads);
  return {{},
          argumentsOf(call, names.size()),
          Loops{loopsName(), slots * space.backwardScratchBytes(), run}};
}

} // namespace stow::host
