// stow-share-kernels: kernels of little work that differ in numbers alone run one body.
//
// A loop that a model has unrolled, over growing parts of a tensor, leaves dozens of kernels whose code is the same but for
// extents and strides. Each would be optimized and written out by itself, which is nearly all that a compilation takes. Where
// there are many of them, one function with these numbers as arguments takes their place, and each becomes a call of it:
//
//   kernel_3(begin, end, x, y) { for ... step 48 ... }          kernel_3(...) { shared(begin, end, x, y, 48) }
//   kernel_4(begin, end, x, y) { for ... step 64 ... }   ->     kernel_4(...) { shared(begin, end, x, y, 64) }
//
// Which elements are computed, and in which order, stays what it was. Few kernels keep their numbers, and so do kernels with
// much to do, whose work is as their ops count it: divisions by a known number are faster.
#include "codegen/kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

#include <map>

using namespace mlir;

namespace stow {
namespace {

/// So many kernels are worth a body with numbers that are not known.
constexpr size_t kLeastShared = 8;

/// Bytes and operations of one run, some 25 microseconds of it. Machine code of its own takes 20 to 40 milliseconds to
/// make and would save such a kernel a few percent: some ten thousand steps pay for it. With more work a step's time counts more.
constexpr int64_t kLittleWork = 1 << 18;

bool hasLittleWork(func::FuncOp kernel) {
  auto work = kernel->getAttrOfType<IntegerAttr>(kKernelWorkAttr);
  return work && work.getInt() <= kLittleWork;
}

/// A kernel's code without its numbers, and the constants that hold them, in order.
class Skeleton {
public:
  explicit Skeleton(func::FuncOp kernel) : stream(text) {
    visit(kernel.getBody());
    stream.flush();
  }

  std::string text;
  SmallVector<arith::ConstantIndexOp> constants;

private:
  void visit(Region &region) {
    for (Block &block : region) {
      stream << "^";
      for (BlockArgument argument : block.getArguments())
        define(argument);
      for (Operation &op : block)
        visit(op);
    }
    stream << ";";
  }

  void visit(Operation &op) {
    stream << op.getName();
    for (Value operand : op.getOperands())
      stream << " " << numbers.at(operand);
    if (auto constant = dyn_cast<arith::ConstantIndexOp>(op))
      constants.push_back(constant);
    else
      stream << op.getAttrDictionary();
    for (Value result : op.getResults())
      define(result);
    for (Region &region : op.getRegions())
      visit(region);
    stream << "\n";
  }

  /// Extents of storage have no part in addresses.
  void define(Value value) {
    numbers[value] = static_cast<unsigned>(numbers.size());
    auto memory = dyn_cast<MemRefType>(value.getType());
    if (memory && isa<BlockArgument>(value))
      stream << " memref " << memory.getElementType();
    else
      stream << " " << value.getType();
  }

  llvm::raw_string_ostream stream;
  llvm::DenseMap<Value, unsigned> numbers;
};

struct Member {
  func::FuncOp kernel;
  SmallVector<arith::ConstantIndexOp> constants;
};

/// The numbers of one constant, or of several that are alike, by member.
using Column = SmallVector<int64_t>;

/// Makes one body of the kernels', and each of them a call of it.
void share(ArrayRef<Member> members, StringRef name) {
  func::FuncOp first = members.front().kernel;
  OpBuilder builder(first);
  func::FuncOp body = first.clone();
  builder.insert(body);
  body.setName(name);
  Block &entry = body.getBody().front();
  for (auto [i, argument] : llvm::enumerate(entry.getArguments()))
    for (Member member : members) {
      auto type = dyn_cast<MemRefType>(member.kernel.getArgument(i).getType());
      if (type && type.getNumElements() > cast<MemRefType>(argument.getType()).getNumElements())
        argument.setType(type);
    }
  SmallVector<arith::ConstantIndexOp> own = Skeleton(body).constants;
  std::map<Column, Value> parameters;
  SmallVector<Column> columns; // of the parameters, in order
  for (auto [i, constant] : llvm::enumerate(own)) {
    Column column =
        llvm::map_to_vector(members, [&](Member member) { return member.constants[i].value(); });
    if (llvm::all_equal(column))
      continue;
    Value &parameter = parameters[column];
    if (!parameter) {
      parameter = entry.addArgument(builder.getIndexType(), body.getLoc());
      columns.push_back(column);
    }
    constant.replaceAllUsesWith(parameter);
    constant.erase();
  }
  body.setType(builder.getFunctionType(entry.getArgumentTypes(), {}));

  for (auto [number, member] : llvm::enumerate(members)) {
    func::FuncOp kernel = member.kernel;
    Block &block = kernel.getBody().front();
    block.clear();
    builder.setInsertionPointToStart(&block);
    SmallVector<Value> arguments;
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      Value given = argument;
      if (auto type = dyn_cast<MemRefType>(entry.getArgument(i).getType());
          type && type != argument.getType())
        given = memref::ReinterpretCastOp::create(builder, kernel.getLoc(), type, argument, 0,
                                                  type.getShape(), ArrayRef<int64_t>{1});
      arguments.push_back(given);
    }
    for (const Column &column : columns)
      arguments.push_back(arith::ConstantIndexOp::create(builder, kernel.getLoc(), column[number]));
    func::CallOp::create(builder, kernel.getLoc(), body, arguments);
    func::ReturnOp::create(builder, kernel.getLoc());
  }
}

//===-- --stow-share-kernels ------------------------------------------------------------------===//

struct ShareKernelsPass : PassWrapper<ShareKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ShareKernelsPass)

  ShareKernelsPass() = default;
  ShareKernelsPass(const ShareKernelsPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "stow-share-kernels"; }
  StringRef getDescription() const override {
    return "Run many kernels of little work that differ in numbers alone by one body";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, memref::MemRefDialect>();
  }

  void runOnOperation() override {
    std::map<std::string, SmallVector<Member>> groups;
    for (auto kernel : getOperation().getOps<func::FuncOp>()) {
      if (!hasLittleWork(kernel))
        continue;
      Skeleton skeleton(kernel);
      groups[std::move(skeleton.text)].push_back({kernel, std::move(skeleton.constants)});
    }
    for (const auto &[text, members] : groups)
      if (members.size() >= least)
        share(members,
              (kSharedKernelPrefix + func::FuncOp(members.front().kernel).getName()).str());
  }

  Option<size_t> least{*this, "least", llvm::cl::desc("Fewer kernels keep their own bodies"),
                       llvm::cl::init(kLeastShared)};
};

} // namespace

std::unique_ptr<Pass> createShareKernelsPass() { return std::make_unique<ShareKernelsPass>(); }

} // namespace stow
