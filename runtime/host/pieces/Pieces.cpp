#include "runtime/host/pieces/Pieces.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/host/Execution.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Parts.h"

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
      if (call.op == CommandOp::DnnlMatmul && !layout.blocks.empty())
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
        throw Error::badInput(
            concat(callTitle(whole), ": operand ", piece.operands[i], " in layout \"",
                   formatLayout(stored.layout),
                   "\" has gaps that no piece can be read across; put a dnnl.reorder "
                   "before the call"));
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
    for (const PieceStep &step : pieces.split.steps)
      elements = std::max(elements, step.boxes[operand].elements());
    return elements * sizeOf(DType::F32);
  };
  for (size_t i = 0; i < whole.operands.size(); ++i)
    if (is16Bit(whole.operands[i].dtype))
      pieces.places[i] = place(largest(i));
  if (std::ranges::any_of(pieces.split.steps, [&](const PieceStep &step) {
        return step.adds && !pieces.split.commands[step.command].adds;
      }))
    pieces.addend = place(largest(pieces.result));
  pieces.libraryScratch = top;
  Bytes library = 0;
  for (const Preparation &preparation : pieces.preparations)
    library = std::max(library, primitiveScratch(preparation));
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

/// The pieces of a call all of whose layouts are given.
std::shared_ptr<const Pieces> piecesOf(const Command &given, PrepareFn prepare,
                                       Split (*split)(const Command &, PrepareFn)) {
  auto pieces = std::make_shared<Pieces>();
  pieces->split = split(given, prepare);
  for (PieceCommand &piece : pieces->split.commands) {
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
      given.operands, [](const Operand &operand) { return is16Bit(operand.dtype); });
  const size_t count = pieces->split.steps.size();
  pieces->name = concat(nameOf(low.dtype), " in ", count, count == 1 ? " piece: " : " pieces: ",
                        pieces->preparations.front().descriptor.impl_info_str());
  return pieces;
}

/// `call` with its free operands in the layouts that the library likes for a piece of it.
Command withLayoutsOf(const PieceCommand &piece, Command call, const std::vector<bool> &anyLayout) {
  std::vector<bool> free;
  for (size_t operand : piece.operands)
    free.push_back(operand < anyLayout.size() && anyLayout[operand]);
  for (const Argument &argument : piece.prepare(piece.command, free).arguments)
    if (free[argument.operand] &&
        (call.op != CommandOp::DnnlMatmul || argument.layout.blocks.empty()))
      call.operands[piece.operands[argument.operand]].layout = argument.layout;
  return call;
}

} // namespace

Bytes quarterOf(const Command &whole) {
  int64_t elements = 0;
  for (const Operand &operand : whole.operands)
    if (is16Bit(operand.dtype))
      elements += elementCount(operand.shape);
  return elements * sizeOf(DType::F32) / 4;
}

Bytes piecesTarget(const Command &whole) {
  constexpr Bytes fast = Bytes{4} << 20;
  return std::min(quarterOf(whole), fast);
}

Preparation preparePieces(const Command &call, const std::vector<bool> &anyLayout,
                          PrepareFn prepare, Split (*split)(const Command &, PrepareFn)) {
  try {
    const Preparation plain = prepare(inF32(call), anyLayout);
    Command given = withLayouts(call, plain.arguments);
    std::shared_ptr<const Pieces> pieces = piecesOf(given, prepare, split);
    // The library may like other layouts for the sizes of the pieces than for those of the whole, and have
    // reference code alone where it does not get them.
    for (size_t i = 0; pieces->isReference && i < pieces->split.commands.size(); ++i) {
      const Command liked = withLayoutsOf(pieces->split.commands[i], given, anyLayout);
      if (auto others = piecesOf(liked, prepare, split); !others->isReference) {
        given = liked;
        pieces = others;
      }
    }
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
  size_t execution = 0;
  int64_t added = 0;    ///< elements of the addend,
  float *sum = nullptr; ///< which go here
};

class PiecesCall : public LibraryCall {
public:
  PiecesCall(const Command &call, const Pieces &pieces, char *arena, int64_t threads, Bytes heap)
      : title(callTitle(call)), threads(threads), heap(heap), stream(cpuEngine()) {
    char *scratch = arena + call.workspaceOffset;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      char *address = arena + call.operands[i].offset;
      const std::optional<Bytes> place = pieces.places[i];
      operands.push_back({call.operands[i].dtype, address, place ? scratch + *place : address});
    }
    if (pieces.addend)
      addend = floats(scratch + *pieces.addend);
    Binding binding{pieces, scratch + pieces.libraryScratch, {}, {}, {}};
    for (const Preparation &preparation : pieces.preparations)
      binding.primitives.push_back(wholePrimitive(preparation, threads));
    for (size_t i = 0; i < pieces.split.steps.size(); ++i)
      bindStep(binding, i);
  }

  void run() override {
    for (const BoundStep &step : steps) {
      for (const BoundStep::Conversion &c : step.widened)
        widenBox(operands[c.operand].type, operands[c.operand].address, c.box,
                 floats(operands[c.operand].piece), threads);
      executions[step.execution].run(stream, title);
      if (step.added > 0)
        addTo(step.sum, addend, step.added, threads);
      for (const BoundStep::Conversion &c : step.narrowed)
        narrowBox(operands[c.operand].type, floats(operands[c.operand].piece), c.box,
                  operands[c.operand].address, threads);
    }
  }

  Bytes heapBytes() const override { return heap; }

private:
  struct BoundOperand {
    DType type;
    char *address, *piece; ///< where it is stored; where pieces of it are in f32
  };

  /// What only binding needs. Steps share executions, and these the memory objects of what they
  /// have in common.
  struct Binding {
    const Pieces &pieces;
    char *libraryScratch;
    std::vector<dnnl::primitive> primitives;
    std::map<std::tuple<size_t, int, char *>, dnnl::memory> memories;
    std::map<std::pair<size_t, std::vector<char *>>, size_t> executions;
  };

  static float *floats(char *address) { return reinterpret_cast<float *>(address); }

  /// Where a box of an operand is in f32.
  char *pieceAddress(const Pieces &pieces, size_t operand, const Box &box) const {
    const BoundOperand &bound = operands[operand];
    return pieces.places[operand] ? bound.piece : bound.address + box.offset * sizeOf(bound.type);
  }

  /// Where the primitive of `step` finds the operand `argument`.
  char *addressOf(const Binding &binding, const PieceStep &step, const Argument &argument) const {
    const PieceCommand &command = binding.pieces.split.commands[step.command];
    const size_t operand = command.operands[argument.operand];
    const Box &box = step.boxes[operand];
    if (argument.opaque)
      return operands[operand].address +
             box.offset * (static_cast<Bytes>(argument.desc.get_size()) / box.run);
    if (operand == binding.pieces.result && step.adds && !command.adds)
      return reinterpret_cast<char *>(addend);
    return pieceAddress(binding.pieces, operand, box);
  }

  void bindStep(Binding &binding, size_t index) {
    const PieceStep &step = binding.pieces.split.steps[index];
    const Preparation &preparation = binding.pieces.preparations[step.command];
    std::vector<Argument> arguments;
    std::vector<char *> addresses;
    for (const Argument &argument : preparation.arguments)
      if (argument.desc.get_size() != 0) {
        arguments.push_back(argument);
        addresses.push_back(addressOf(binding, step, argument));
      }
    if (dnnl::memory::desc library = preparation.descriptor.scratchpad_desc();
        library.get_size() != 0) {
      arguments.push_back({0, DNNL_ARG_SCRATCHPAD, library, {}});
      addresses.push_back(binding.libraryScratch);
    }
    BoundStep &bound = steps.emplace_back();
    auto [found, isNew] =
        binding.executions.try_emplace({step.command, addresses}, executions.size());
    bound.execution = found->second;
    if (isNew) {
      Execution &execution = executions.emplace_back(binding.primitives[step.command]);
      for (size_t i = 0; i < arguments.size(); ++i) {
        dnnl::memory &memory =
            binding.memories[{step.command, arguments[i].dnnlArgument, addresses[i]}];
        if (!memory)
          memory = dnnl::memory(arguments[i].desc, cpuEngine(), addresses[i]);
        execution.add(arguments[i].dnnlArgument, memory);
      }
      addParts(execution, preparation, addresses, binding.libraryScratch, threads);
    }
    if (step.adds && !binding.pieces.split.commands[step.command].adds) {
      const size_t result = binding.pieces.result;
      bound.added = step.boxes[result].elements();
      bound.sum = floats(pieceAddress(binding.pieces, result, step.boxes[result]));
    }
    addConversions(binding.pieces, index, bound);
  }

  /// Operands that this step's primitive reads are widened unless the last step left them so;
  /// results are narrowed once no later step adds to them.
  static void addConversions(const Pieces &pieces, size_t index, BoundStep &bound) {
    const std::vector<PieceStep> &steps = pieces.split.steps;
    const PieceStep &step = steps[index];
    for (size_t operand : pieces.split.commands[step.command].operands) {
      if (!pieces.places[operand])
        continue;
      const Box &box = step.boxes[operand];
      if (operand == pieces.result) {
        if (index + 1 == steps.size() || !steps[index + 1].adds)
          bound.narrowed.push_back({operand, box});
      } else if (index == 0 || steps[index - 1].boxes[operand] != box) {
        bound.widened.push_back({operand, box});
      }
    }
  }

  std::string title;
  int64_t threads;
  Bytes heap;
  dnnl::stream stream;
  std::vector<BoundOperand> operands;
  float *addend = nullptr; ///< a result that is added to those before
  std::vector<Execution> executions;
  std::vector<BoundStep> steps;
};

} // namespace

std::unique_ptr<LibraryCall> bindPieces(const Command &call, const Pieces &pieces, char *arena,
                                        int64_t threads, Bytes heapBytes) {
  return std::make_unique<PiecesCall>(call, pieces, arena, threads, heapBytes);
}

} // namespace stow::host
