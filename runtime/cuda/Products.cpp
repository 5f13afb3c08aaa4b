#include "runtime/cuda/Products.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/CublasLtApi.h"
#include "runtime/cuda/ProductEpilogue.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

namespace stow::cuda {

namespace {

using namespace cublaslt;

constexpr uint32_t kMostAlignment = 256; ///< more makes no difference to the library

int dataType(DType type, const std::string &title) {
  switch (type) {
  case DType::F32:
    return kReal32F;
  case DType::F16:
    return kReal16F;
  case DType::BF16:
    return kReal16BF;
  default:
    throw Error::badInput(title + ": products are of f32, f16 and bf16, found " +
                          std::string(nameOf(type)));
  }
}

/// A matrix as the product sees it, transposed if its flag says so: extents, and the steps in elements
/// from row to row and from column to column.
struct View {
  int64_t rows = 0, columns = 0, row = 0, column = 0;
};

View viewOf(const Operand &operand, bool transposed) {
  const std::vector<int64_t> strides = outerStrides(operand.layout, operand.shape);
  const size_t rank = operand.shape.size();
  View view = {operand.shape[rank - 2], operand.shape[rank - 1], strides[rank - 2],
               strides[rank - 1]};
  if (transposed)
    std::swap(view.rows, view.columns), std::swap(view.row, view.column);
  return view;
}

/// Steps or offsets of a, b and y, in elements.
using Steps = std::array<int64_t, 3>;

/// The leading dimensions: `count` matrices in even steps are one call, which runs once for each of
/// `offsets`.
struct Batch {
  int64_t count = 1;
  Steps steps = {};
  std::vector<Steps> offsets = {{}};
};

/// The step of leading dimension `i` of a result of rank `rank`; 0 where the operand repeats.
int64_t leadingStep(const Operand &operand, size_t i, size_t rank) {
  const size_t missing = rank - operand.shape.size();
  if (i < missing || operand.shape[i - missing] == 1)
    return 0;
  return outerStrides(operand.layout, operand.shape)[i - missing];
}

Batch batchOf(const Operand &a, const Operand &b, const Operand &y) {
  Batch batch;
  const size_t rank = y.shape.size();
  for (size_t i = rank - 2; i-- > 0;) {
    const int64_t extent = y.shape[i];
    if (extent == 1)
      continue;
    const Steps steps = {leadingStep(a, i, rank), leadingStep(b, i, rank), leadingStep(y, i, rank)};
    bool isEven = batch.offsets.size() == 1;
    for (size_t side = 0; side < 3 && batch.count > 1; ++side)
      isEven &= steps[side] == batch.count * batch.steps[side];
    if (isEven) {
      if (batch.count == 1)
        batch.steps = steps;
      batch.count *= extent;
      continue;
    }
    std::vector<Steps> all;
    for (int64_t item = 0; item < extent; ++item)
      for (const Steps &inner : batch.offsets)
        all.push_back(
            {inner[0] + item * steps[0], inner[1] + item * steps[1], inner[2] + item * steps[2]});
    batch.offsets = std::move(all);
  }
  return batch;
}

class BoundProduct final : public LibraryCall {
public:
  BoundProduct(const Command &command, Address arena)
      : library(openLibrary()), lt(*library), title("product of node '" + command.name + "'"),
        workspace(arena + static_cast<Address>(command.workspaceOffset)),
        workspaceBytes(static_cast<size_t>(command.workspaceBytes)) {
    const ProductEpilogue epilogue = epilogueOf(command);
    isAdded = epilogue.added.has_value();
    const Operand &y = command.operands.rbegin()[epilogue.summed ? 1 : 0];
    auto flag = [&](const char *name) {
      auto found = command.ints.find(name);
      return found != command.ints.end() && found->second.at(0) != 0;
    };
    View left = viewOf(command.operands[0], flag("transpose_a"));
    View right = viewOf(command.operands[1], flag("transpose_b")), result = viewOf(y, false);
    batch = batchOf(command.operands[0], command.operands[1], y);
    joinRows(left, result);
    lt.require(
        lt.matmulDescCreate(&operation, flag("tf32") ? kCompute32FFastTf32 : kCompute32F, kReal32F),
        title);
    first = matrix(right, command.operands[1].dtype, batch.steps[1], kTransposeA);
    second = matrix(left, command.operands[0].dtype, batch.steps[0], kTransposeB);
    third = matrix(result, y.dtype, batch.steps[2], 0);
    setFunction(epilogue);
    if (epilogue.summed)
      setSums(command.operands.back(), arena);
    if (epilogue.bias)
      setBias(command.operands.at(*epilogue.bias), arena);
    if (epilogue.preactivation)
      setPreactivation(command.operands.at(*epilogue.preactivation), arena);
    added =
        arena + static_cast<Address>((isAdded ? command.operands.at(*epilogue.added) : y).offset);
    for (size_t side : {size_t{0}, size_t{1}, size_t{2}}) {
      const Operand &operand = side == 2 ? y : command.operands[side];
      places[side] = arena + static_cast<Address>(operand.offset);
      for (Steps &offsets : batch.offsets) {
        offsets[side] *= sizeOf(operand.dtype);
        for (Address place : {places[side], side == 2 ? added : places[side]})
          alignment = std::min(alignment, lowestBit(place + static_cast<Address>(offsets[side])));
      }
      if (batch.count > 1)
        alignment = std::min(
            alignment, lowestBit(static_cast<Address>(batch.steps[side] * sizeOf(operand.dtype))));
    }
    if (workspaceBytes > 0 && workspace % kWorkspaceAlignment != 0)
      throw Error::badInput(concat(title, ": expected its workspace at a multiple of ",
                                   kWorkspaceAlignment, " bytes, found it at offset ",
                                   command.workspaceOffset, " of the arena"));
    words = wordsOf(epilogue);
    asked += concat(",", flag("tf32") ? 1 : 0, ",", isAdded ? 1 : 0, ",",
                    static_cast<int>(epilogue.function), ",", epilogue.bias ? 1 : 0, ",",
                    epilogue.summed ? static_cast<int>(*epilogue.summed) : -1, ",", auxLeading, ",",
                    workspaceBytes, ",", alignment);
  }

  /// Asks the library for up to `most` algorithms. False where it has none.
  bool ask(int most);

  size_t alternatives() const override { return algorithms.size(); }
  void choose(size_t alternative) override { chosen = alternative; }
  size_t chosenAlternative() const override { return chosen; }
  void drop(size_t alternative) override {
    algorithms.erase(algorithms.begin() + static_cast<std::ptrdiff_t>(alternative));
  }
  std::string alternative(size_t number) const override;
  std::string question() const override { return asked; }

  /// For errors.
  std::string nothingFound() const {
    return title + words + ": cuBLASLt has nothing for it within " +
           formatBytesExact(static_cast<Bytes>(workspaceBytes)) + " of scratch";
  }

  ~BoundProduct() override {
    for (MatrixDesc desc : {first, second, third})
      if (desc)
        lt.matrixLayoutDestroy(desc);
    if (operation)
      lt.matmulDescDestroy(operation);
  }

  void submit(Stream stream) override {
    const float one = 1, beta = isAdded ? 1 : 0;
    auto at = [&](const Steps &offsets, size_t side) {
      return reinterpret_cast<void *>(places[side] + static_cast<Address>(offsets[side]));
    };
    for (const Steps &offsets : batch.offsets)
      lt.require(lt.matmul(lt.handle, operation, &one, at(offsets, 1), first, at(offsets, 0),
                           second, &beta,
                           reinterpret_cast<void *>(added + static_cast<Address>(offsets[2])),
                           third, at(offsets, 2), third, &algorithms[chosen],
                           reinterpret_cast<void *>(workspace), workspaceBytes, stream),
                 title);
  }

private:
  static uint32_t lowestBit(Address address) {
    return address == 0
               ? kMostAlignment
               : static_cast<uint32_t>(std::min<Address>(address & -address, kMostAlignment));
  }

  /// With one matrix on the right, the rows of all matrices on the left form a tall one.
  void joinRows(View &left, View &result) {
    if (batch.count == 1 || batch.steps[1] != 0 || batch.steps[0] != left.rows * left.row ||
        batch.steps[2] != result.rows * result.row)
      return;
    left.rows *= batch.count, result.rows *= batch.count;
    batch.count = 1;
    batch.steps = {};
  }

  /// A matrix by columns, or the transpose of one.
  MatrixDesc matrix(View view, DType type, int64_t step, int transpose) {
    std::swap(view.rows, view.columns), std::swap(view.row, view.column); // y^T = b^T a^T
    const bool isByColumns = view.row == 1 || view.rows == 1;
    if (!isByColumns && (transpose == 0 || (view.column != 1 && view.columns != 1)))
      throw Error::badInput(title + ": the layout of an operand has neither whole rows nor whole "
                                    "columns");
    const int64_t rows = isByColumns ? view.rows : view.columns;
    const int64_t columns = isByColumns ? view.columns : view.rows;
    const int64_t leading = std::max(rows, isByColumns ? view.column : view.row);
    MatrixDesc desc = nullptr;
    lt.require(lt.matrixLayoutCreate(&desc, dataType(type, title), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), leading),
               title);
    asked += concat(asked.empty() ? "" : ",", nameOf(type), ",", rows, "x", columns, ",", leading,
                    ",", transpose != 0 && !isByColumns ? 1 : 0, ",", batch.count, ",", step);
    const auto count = static_cast<int32_t>(batch.count);
    lt.require(lt.matrixLayoutSetAttribute(desc, kBatchCount, &count, sizeof count), title);
    lt.require(lt.matrixLayoutSetAttribute(desc, kBatchStride, &step, sizeof step), title);
    if (transpose != 0) {
      const int32_t op = isByColumns ? kOpNone : kOpTranspose;
      lt.require(lt.matmulDescSetAttribute(operation, transpose, &op, sizeof op), title);
    }
    return desc;
  }

  template <typename Value> void setAttribute(int attribute, Value value) {
    lt.require(lt.matmulDescSetAttribute(operation, attribute, &value, sizeof value), title);
  }

  void setFunction(const ProductEpilogue &epilogue) {
    constexpr uint32_t functions[] = {0, kEpilogueRelu, kEpilogueGelu, kEpilogueGeluGradient};
    uint32_t chosen =
        functions[static_cast<size_t>(epilogue.function)] | (epilogue.bias ? kEpilogueBias : 0);
    if (epilogue.summed && chosen != 0)
      throw Error::badInput(title + ": sums of a factor's rows go with no function and no bias");
    if (epilogue.summed) // the library's A is our b
      chosen = *epilogue.summed == 1 ? kEpilogueSumsOfA : kEpilogueSumsOfB;
    setAttribute(kEpilogue, chosen == 0 ? kEpilogueDefault : chosen);
  }

  /// The place of an operand of the epilogue. Throws where it is not at a multiple of 16 bytes.
  uint64_t placeOf(const Operand &operand, const char *what, Address arena) const {
    const uint64_t address = arena + static_cast<Address>(operand.offset);
    if (address % kEpilogueAlignment != 0)
      throw Error::badInput(concat(title, ": expected ", what, " at a multiple of ",
                                   kEpilogueAlignment, " bytes, found it at offset ",
                                   operand.offset, " of the arena"));
    return address;
  }

  void setBias(const Operand &bias, Address arena) {
    setVector(bias, placeOf(bias, "the bias", arena));
  }

  /// The library writes them over what is there, added product or not.
  void setSums(const Operand &sums, Address arena) {
    if (batch.count != 1 || batch.offsets.size() != 1)
      throw Error::badInput(title + ": expected one matrix whose rows are summed");
    setVector(sums, placeOf(sums, "the sums", arena));
  }

  /// Bias and sums have one place in a description.
  void setVector(const Operand &vector, uint64_t place) {
    setAttribute(kBiasPointer, place);
    setAttribute(kBiasType, static_cast<int32_t>(dataType(vector.dtype, title)));
  }

  /// What the gradient of GELU is taken at; of y's type, which is the library's default.
  void setPreactivation(const Operand &x, Address arena) {
    const View view = viewOf(x, false);
    if (batch.count != 1 || batch.offsets.size() != 1 || view.column != 1 ||
        view.row % kPreactivationStep != 0)
      throw Error::badInput(concat(title,
                                   ": expected one matrix as the preactivation, of rows that "
                                   "begin at multiples of ",
                                   kPreactivationStep, " elements, found steps of ", view.row,
                                   " and ", view.column));
    setAttribute(kAuxPointer, placeOf(x, "the preactivation", arena));
    setAttribute(kAuxLeading, view.row);
    auxLeading = view.row;
  }

  const std::shared_ptr<const cublaslt::Library> library;
  const Library &lt;        ///< of that
  std::string title, words; ///< the command, and what is done to the product
  Address workspace;
  size_t workspaceBytes;
  OpDesc operation = nullptr;
  MatrixDesc first = nullptr, second = nullptr, third = nullptr;
  Batch batch; ///< its offsets in bytes
  std::array<Address, 3> places = {};
  bool isAdded = false;
  Address added = 0;                   ///< what the product is added to; else the result
  uint32_t alignment = kMostAlignment; ///< of every address that is given to the library
  std::vector<Algorithm> algorithms;
  size_t chosen = 0;
  int64_t auxLeading = 0; ///< of the preactivation; 0: none
  std::string asked;      ///< all that the library's answer depends on
};

bool BoundProduct::ask(int most) {
  Preference preference = nullptr;
  lt.require(lt.matmulPreferenceCreate(&preference), title + words);
  const uint64_t scratch = workspaceBytes;
  std::vector<Heuristic> found(static_cast<size_t>(most));
  int count = 0;
  Status status =
      lt.matmulPreferenceSetAttribute(preference, kMaxWorkspace, &scratch, sizeof scratch);
  if (status == 0)
    status = lt.matmulPreferenceSetAttribute(preference, kReductionSchemes, &kReduceInComputeType,
                                             sizeof kReduceInComputeType);
  for (int side : {kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD})
    if (status == 0)
      status = lt.matmulPreferenceSetAttribute(preference, side, &alignment, sizeof alignment);
  if (status == 0)
    status = lt.matmulAlgoGetHeuristic(lt.handle, operation, first, second, third, third,
                                       preference, most, found.data(), &count);
  lt.matmulPreferenceDestroy(preference);
  if (status != kNotSupported)
    lt.require(status, title + words);
  for (const Heuristic &one : std::span(found).first(static_cast<size_t>(status == 0 ? count : 0)))
    if (one.state == 0)
      algorithms.push_back(one.algorithm);
  return !algorithms.empty();
}

/// The bytes that describe it, which hold for the library's version.
std::string BoundProduct::alternative(size_t number) const {
  std::string text = concat(lt.getVersion(), ":");
  char digits[20];
  for (uint64_t word : algorithms[number].data) {
    std::snprintf(digits, sizeof digits, "%llx.", static_cast<unsigned long long>(word));
    text += digits;
  }
  text.pop_back();
  return text;
}

} // namespace

std::unique_ptr<LibraryCall> bindProduct(const Command &command, Address arena, int most) {
  auto product = std::make_unique<BoundProduct>(command, arena);
  if (!product->ask(most))
    throw Error::badInput(product->nothingFound());
  return product;
}

std::unique_ptr<LibraryCall> bindProductIfAny(const Command &command, Address arena, int most) {
  auto product = std::make_unique<BoundProduct>(command, arena);
  if (!product->ask(most))
    return nullptr;
  return product;
}

} // namespace stow::cuda
