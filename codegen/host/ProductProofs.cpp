#include "codegen/host/ProductProofs.h"

#include "codegen/program/LibraryCommand.h"
#include "ir/StowKernelOps.h"
#include "runtime/base/Concat.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Library.h"

#include "absl/strings/str_cat.h"

#include <cstring>
#include <memory>

using namespace mlir;

namespace stow::host {
namespace {

/// Multiplications of the largest trial: half a second of one core with AVX-512.
constexpr double mostWork = 8e9;

/// Numbers in [-1, 1) that use all bits of their type, the same in every compilation.
class Draw {
public:
  float next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
  }
  void fill(const Operand &operand, char *arena) {
    char *to = arena + operand.offset;
    const int64_t count = storedBytes(operand.layout, operand.shape, operand.dtype) /
                          static_cast<int64_t>(sizeOf(operand.dtype));
    for (int64_t i = 0; i < count; ++i) {
      const float number = next();
      if (operand.dtype == DType::F32) {
        std::memcpy(to + i * 4, &number, 4);
      } else {
        const uint16_t narrow =
            operand.dtype == DType::BF16 ? narrowBf16(number) : narrowF16(number);
        std::memcpy(to + i * 2, &narrow, 2);
      }
    }
  }

private:
  uint64_t state = 0x9e3779b97f4a7c15;
};

Bytes bytesOf(const Operand &operand) {
  return storedBytes(operand.layout, operand.shape, operand.dtype);
}

/// Lays tensors out one behind the other.
struct Places {
  Bytes end = 0;
  Bytes add(Bytes bytes) {
    const Bytes place = end;
    end = alignUp(end + bytes, 64);
    return place;
  }
};

} // namespace

void runCall(const Command &call, char *arena, int64_t threads) {
  bindLibraryCall(call, arena, threads)->run();
}

bool givesTheSameBits(const ProductTrial &trial, int64_t threads, RunCall run) {
  Places places;
  Command whole = trial.whole;
  for (Operand &operand : whole.operands)
    operand.offset = places.add(bytesOf(operand));
  const Operand &result = whole.operands.back();
  Bytes largest = 0;
  for (const Command &part : trial.parts)
    largest = std::max(largest, bytesOf(part.operands.back()));
  const Bytes made = places.add(largest); // what a part makes
  const Bytes workspace = places.end;
  auto place = [&](Command &call) {
    call.workspaceOffset = workspace;
    call.workspaceBytes = queryLibrary(call, {}, threads).workspaceBytes;
    places.end = std::max(places.end, workspace + call.workspaceBytes);
  };
  place(whole);
  std::vector<Command> parts = trial.parts;
  for (auto [part, first] : llvm::zip(parts, trial.firstRows)) {
    part.operands[0].offset += whole.operands[0].offset; // a box of the left factor
    part.operands[1].offset = whole.operands[1].offset;
    part.operands[2].offset = made;
    place(part);
  }
  const std::unique_ptr<char[]> memory(new char[places.end + 64]);
  char *arena = memory.get() + (-reinterpret_cast<uintptr_t>(memory.get()) & 63);
  Draw draw;
  draw.fill(whole.operands[0], arena);
  draw.fill(whole.operands[1], arena);
  run(whole, arena, threads);
  auto *expected = reinterpret_cast<float *>(arena + result.offset);
  for (auto [part, first] : llvm::zip(parts, trial.firstRows)) {
    const Operand &tile = part.operands.back();
    const int64_t count = bytesOf(tile) / static_cast<int64_t>(sizeof(float));
    if (part.op == CommandOp::DnnlMatmulAdd) {
      draw.fill(tile, arena);
      const auto *added = reinterpret_cast<const float *>(arena + made);
      for (int64_t i = 0; i < count; ++i)
        expected[i] += added[i];
    }
    run(part, arena, threads);
    const float *rows = expected + first * tile.shape.back();
    if (std::memcmp(rows, arena + made, count * sizeof(float)) != 0)
      return false;
  }
  return true;
}

const ProductProofs::Finding &ProductProofs::finding(ProductMapOp op, ProductForm form) const {
  auto describe = [](Value factor, bool isTransposed) {
    const Operand operand = operandOf(factor.getType(), 0);
    const std::string layout = formatLayout(operand.layout);
    return concat(nameOf(operand.dtype), " ", joined(operand.shape, "x"),
                  layout.empty() ? "" : " in " + layout, isTransposed ? " transposed" : "");
  };
  const std::string product = describe(op.getA(), op.getTransposeA()) + " by " +
                              describe(op.getB(), op.getTransposeB()) +
                              (form == ProductForm::Added ? ", added" : "");
  const std::lock_guard lock(asking);
  auto [found, isNew] = findings.try_emplace(product);
  if (isNew)
    if (const std::optional<ProductTrial> trial = trialOf(op, form, mostWork))
      found->second = {givesTheSameBits(*trial, threads, run), trial->rows(), trial->ofRows};
  return found->second;
}

std::optional<ProductForm> ProductProofs::formOf(ProductMapOp op) const {
  for (ProductForm form : formsOf(op))
    if (form == ProductForm::Rows || finding(op, form).isProven)
      return form;
  return std::nullopt;
}

std::string ProductProofs::note() const {
  const std::lock_guard lock(asking);
  size_t proven = 0;
  std::string others, large, partly;
  for (const auto &[product, finding] : findings) {
    proven += finding.isProven;
    if (finding.isProven && finding.rows < finding.ofRows)
      absl::StrAppend(&partly, partly.empty() ? " (" : "; ", finding.rows, " of ", finding.ofRows,
                      " rows of ", product);
    if (finding.rows == 0)
      absl::StrAppend(&large, large.empty() ? "" : "; ", product);
    else if (!finding.isProven)
      absl::StrAppend(&others, others.empty() ? "" : "; ", product);
  }
  std::string text;
  if (proven > 0)
    text = absl::StrCat(
        "products by tiles or added in place, ", proven, proven == 1 ? " shape" : " shapes",
        ": the bits of whole products, as drawn numbers showed", partly, partly.empty() ? "" : ")");
  if (!others.empty())
    absl::StrAppend(&text, text.empty() ? "" : ". ",
                    "Whole, since tiles gave other bits: ", others);
  if (!large.empty())
    absl::StrAppend(&text, text.empty() ? "" : ". ", "Whole, too large to be tried: ", large);
  return text;
}

} // namespace stow::host
