#include "runtime/host/Pieces.h"

#include "runtime/base/Error.h"
#include "runtime/host/Execution.h"
#include "runtime/host/Float16.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stow::host {
namespace {

constexpr Bytes alignment = 64;

/// The operand that a primitive computes, in a call of its own numbering.
size_t resultOf(const Preparation &preparation) {
  for (const Argument &argument : preparation.arguments)
    if (argument.dnnlArgument == DNNL_ARG_DST || argument.dnnlArgument == DNNL_ARG_DIFF_SRC ||
        argument.dnnlArgument == DNNL_ARG_DIFF_WEIGHTS)
      return argument.operand;
  throw Error::internal("a call without a result");
}

/// `call` with f32 operands of any size: its arguments tell which layouts are right.
Command inF32(const Command &call) {
  Command plain = call;
  for (Operand &operand : plain.operands)
    if (is16Bit(operand.dtype))
      operand.dtype = DType::F32;
  return plain;
}

/// Gives the free operands of `call` the layouts of `arguments`, but plain ones to the operands of
/// products that these would store in blocks.
Command withLayouts(const Command &call, const std::vector<Argument> &arguments) {
  Command given = call;
  for (const Argument &argument : arguments)
    if (!argument.opaque) {
      Layout &layout = given.operands[argument.operand].layout;
      layout = argument.layout;
      if (call.op == "dnnl.matmul" && !layout.blocks.empty())
        layout = call.operands[argument.operand].layout;
    }
  return given;
}

/// The operands of a piece in f32: packed where they are converted, else in place.
void placeOperands(const Command &whole, PieceCommand &piece) {
  for (size_t i = 0; i < piece.operands.size(); ++i) {
    const Operand &stored = whole.operands[piece.operands[i]];
    Operand &operand = piece.command.operands[i];
    if (is16Bit(stored.dtype)) {
      operand.dtype = DType::F32;
      operand.layout = packedLayout(stored);
    } else if (operand.shape != stored.shape) {
      std::optional<Layout> layout = layoutInPlace(stored, operand.shape);
      if (!layout)
        throw Error::badInput(whole.op + " of node '" + whole.name + "': operand " +
                              std::to_string(piece.operands[i]) + " in layout \"" +
                              formatLayout(stored.layout) +
                              "\" has gaps that no piece can be read across; put a dnnl.reorder "
                              "before the call");
      operand.layout = *layout;
    }
  }
}

/// Places the f32 pieces, each as large as its largest, a sum and the library's scratch.
void placeScratch(const Command &whole, Pieces &pieces) {
  pieces.places.assign(whole.operands.size(), std::nullopt);
  Bytes top = 0;
  auto place = [&](Bytes bytes) {
    Bytes at = top;
    top = alignUp(top + bytes, alignment);
    return at;
  };
  auto largest = [&](size_t operand) {
    int64_t elements = 0;
    for (const PieceStep &step : pieces.cut.steps)
      elements = std::max(elements, step.boxes[operand].elements());
    return elements * sizeOf(DType::F32);
  };
  for (size_t i = 0; i < whole.operands.size(); ++i)
    if (is16Bit(whole.operands[i].dtype))
      pieces.places[i] = place(largest(i));
  if (std::ranges::any_of(pieces.cut.steps, [&](const PieceStep &step) {
        return step.adds && !pieces.cut.commands[step.command].adds;
      }))
    pieces.addend = place(largest(pieces.result));
  pieces.libraryScratch = top;
  Bytes library = 0;
  for (const Preparation &preparation : pieces.preparations)
    library =
        std::max(library, static_cast<Bytes>(preparation.descriptor.scratchpad_desc().get_size()));
  pieces.scratchBytes = top + library;
}

/// The whole call's arguments: the operands as they are stored.
std::vector<Argument> storedArguments(const Command &call, const Preparation &plain) {
  std::vector<Argument> arguments;
  for (Argument argument : plain.arguments) {
    const Operand &operand = call.operands[argument.operand];
    if (!argument.opaque) {
      argument.layout = operand.layout;
      argument.desc = descOf(operand.dtype, operand.shape, operand.layout);
    }
    arguments.push_back(argument);
  }
  return arguments;
}

} // namespace

Bytes piecesTarget(const Command &whole) {
  constexpr Bytes fast = Bytes{4} << 20;
  int64_t elements = 0;
  for (const Operand &operand : whole.operands)
    if (is16Bit(operand.dtype))
      elements += elementCount(operand.shape);
  return std::min(elements * sizeOf(DType::F32) / 4, fast);
}

Preparation preparePieces(const Command &call, const std::vector<bool> &anyLayout,
                          PrepareFn prepare, Cut (*cut)(const Command &, PrepareFn)) {
  try {
    Preparation plain = prepare(inF32(call), anyLayout);
    const Command given = withLayouts(call, plain.arguments);
    auto pieces = std::make_shared<Pieces>();
    pieces->cut = cut(given, prepare);
    for (PieceCommand &piece : pieces->cut.commands) {
      placeOperands(given, piece);
      pieces->preparations.push_back(piece.prepare(piece.command, {}));
    }
    pieces->result = resultOf(pieces->preparations.front());
    placeScratch(given, *pieces);
    for (const Preparation &preparation : pieces->preparations) {
      pieces->usesHeap |= usesHeap(preparation.descriptor.impl_info_str());
      pieces->isReference |= isReference(preparation.descriptor.impl_info_str());
    }
    const Operand &low = *std::ranges::find_if(
        call.operands, [](const Operand &operand) { return is16Bit(operand.dtype); });
    const size_t count = pieces->cut.steps.size();
    pieces->name = std::string(nameOf(low.dtype)) + " in " + std::to_string(count) +
                   (count == 1 ? " piece: " : " pieces: ") +
                   pieces->preparations.front().descriptor.impl_info_str();
    return {{}, storedArguments(given, plain), {}, pieces};
  } catch (const Error &error) {
    throw Error::badInput(std::string(error.what()) +
                          "\n  (its 16-bit operands are converted: the arithmetic is f32's)");
  }
}

namespace {

/// A step with everything that it does.
struct BoundStep {
  struct Conversion {
    size_t operand;
    Box box;
  };
  std::vector<Conversion> widened, narrowed;
  Execution execution;
  int64_t added = 0; ///< elements of the addend
};

class PiecesCall : public LibraryCall {
public:
  PiecesCall(const Command &call, std::shared_ptr<const Pieces> pieces, char *arena,
             int64_t threads, Bytes heap)
      : title(call.op + " of node '" + call.name + "'"), threads(threads), heap(heap),
        stream(cpuEngine()), scratch(arena + call.workspaceOffset), plan(std::move(pieces)) {
    for (const Operand &operand : call.operands) {
      addresses.push_back(arena + operand.offset);
      types.push_back(operand.dtype);
    }
    for (const Preparation &preparation : plan->preparations)
      primitives.emplace_back(preparation.descriptor.get());
    for (size_t i = 0; i < plan->cut.steps.size(); ++i)
      bindStep(i);
    known.clear();
  }

  void run() override {
    for (const BoundStep &step : steps) {
      for (const BoundStep::Conversion &c : step.widened)
        widenBox(types[c.operand], addresses[c.operand], c.box, piece(c.operand), threads);
      step.execution.run(stream, title);
      if (step.added > 0)
        addTo(sum(), at(*plan->addend), step.added, threads);
      for (const BoundStep::Conversion &c : step.narrowed)
        narrowBox(types[c.operand], piece(c.operand), c.box, addresses[c.operand], threads);
    }
  }

  Bytes heapBytes() const override { return heap; }

private:
  float *at(Bytes place) const { return reinterpret_cast<float *>(scratch + place); }
  float *piece(size_t operand) const { return at(*plan->places[operand]); }
  /// Where the results of a sum are.
  float *sum() const {
    return plan->places[plan->result] ? piece(plan->result)
                                      : reinterpret_cast<float *>(addresses[plan->result]);
  }

  /// True when step `index` works on the same box of an operand as the step `other`.
  bool isSameBox(size_t operand, size_t index, size_t other) const {
    return other < plan->cut.steps.size() &&
           plan->cut.steps[index].boxes[operand] == plan->cut.steps[other].boxes[operand];
  }

  void bindStep(size_t index) {
    const PieceStep &step = plan->cut.steps[index];
    const PieceCommand &command = plan->cut.commands[step.command];
    const Preparation &preparation = plan->preparations[step.command];
    BoundStep bound{{}, {}, Execution(primitives[step.command]), 0};
    for (const Argument &argument : preparation.arguments) {
      if (argument.desc.get_size() == 0)
        continue;
      const size_t operand = command.operands[argument.operand];
      const Box &box = step.boxes[operand];
      char *address = addresses[operand] + box.offset * sizeOf(types[operand]);
      if (argument.opaque)
        address = addresses[operand] +
                  box.offset * (static_cast<Bytes>(argument.desc.get_size()) / box.run);
      else if (plan->places[operand])
        address = scratch + *plan->places[operand];
      if (operand == plan->result && step.adds && !command.adds) {
        address = scratch + *plan->addend;
        bound.added = box.elements();
      }
      bound.execution.add(argument.dnnlArgument, memory(step.command, argument, address));
    }
    const dnnl::memory::desc library = preparation.descriptor.scratchpad_desc();
    if (library.get_size() != 0)
      bound.execution.add(DNNL_ARG_SCRATCHPAD,
                          memory(step.command, {0, DNNL_ARG_SCRATCHPAD, library, {}},
                                 scratch + plan->libraryScratch));
    addConversions(index, bound);
    steps.push_back(std::move(bound));
  }

  /// Operands that this step's primitive reads are widened unless the last step left them so;
  /// results are narrowed once no later step adds to them.
  void addConversions(size_t index, BoundStep &bound) const {
    const PieceStep &step = plan->cut.steps[index];
    for (size_t operand : plan->cut.commands[step.command].operands) {
      if (!plan->places[operand])
        continue;
      const Box &box = step.boxes[operand];
      if (operand == plan->result) {
        const bool isUnfinished =
            index + 1 < plan->cut.steps.size() && plan->cut.steps[index + 1].adds;
        if (!isUnfinished)
          bound.narrowed.push_back({operand, box});
      } else if (index == 0 || !isSameBox(operand, index, index - 1)) {
        bound.widened.push_back({operand, box});
      }
    }
  }

  /// Steps share the memory objects of what they have in common.
  dnnl::memory memory(size_t command, const Argument &argument, char *address) {
    auto [found, isNew] =
        known.try_emplace(std::tuple(command, argument.dnnlArgument, address), dnnl::memory());
    if (isNew)
      found->second = dnnl::memory(argument.desc, cpuEngine(), address);
    return found->second;
  }

  std::string title;
  int64_t threads;
  Bytes heap;
  dnnl::stream stream;
  char *scratch;
  std::shared_ptr<const Pieces> plan;
  std::vector<char *> addresses;
  std::vector<DType> types;
  std::vector<dnnl::primitive> primitives;
  std::map<std::tuple<size_t, int, char *>, dnnl::memory> known; ///< while binding
  std::vector<BoundStep> steps;
};

} // namespace

std::unique_ptr<LibraryCall> bindPieces(const Command &call, std::shared_ptr<const Pieces> pieces,
                                        char *arena, int64_t threads, Bytes heapBytes) {
  return std::make_unique<PiecesCall>(call, std::move(pieces), arena, threads, heapBytes);
}

} // namespace stow::host
