// Reading and changing the signature of a graph function: arguments and results with attributes.
#pragma once

#include "ir/Graphs.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace stow {

/// The name of the state that scales the loss.
inline constexpr llvm::StringLiteral kLossScaleName = "loss_scale";

/// One result of a graph and its attributes (stow.name, stow.state, ...).
struct GraphResult {
  mlir::Value value;
  mlir::DictionaryAttr attributes;

  /// The string attribute `name`, or "" when absent.
  llvm::StringRef get(llvm::StringRef name) const;
};

/// The function of role `role`; without one, emits an error that ends with `nextStep` and returns
/// null.
mlir::func::FuncOp requireGraph(mlir::ModuleOp module, Role role, llvm::StringRef nextStep);

/// String attribute `name` of argument `index`, or "".
llvm::StringRef argumentAttr(mlir::func::FuncOp graph, unsigned index, llvm::StringRef name);

/// The argument whose stow.name is `name`, or null.
mlir::BlockArgument findArgument(mlir::func::FuncOp graph, llvm::StringRef name);

/// Appends an argument that data files or the runtime know by its name; null (with an error) when the
/// graph has one of that name. `init` is its stow.init, or null.
mlir::Value addKnownArgument(mlir::func::FuncOp graph, mlir::Type type, llvm::StringRef name,
                             ArgumentKind kind, mlir::Attribute init, mlir::Location location);

/// The names that arguments of any graph of a module have.
class ArgumentNames {
public:
  explicit ArgumentNames(mlir::ModuleOp module);

  /// `wanted` or, where that is taken, `wanted` with the first number from 2 on that is not:
  /// "w.momentum.2". Takes it.
  std::string take(llvm::StringRef wanted);

private:
  llvm::StringSet<> taken;
};

/// Appends an argument that is known by its kind or by what returns its new value. It is called
/// `wanted`, or about so where that is taken.
mlir::BlockArgument addOwnArgument(mlir::func::FuncOp graph, ArgumentNames &names, mlir::Type type,
                                   llvm::StringRef wanted, ArgumentKind kind, mlir::Attribute init,
                                   mlir::Location location);

/// The arguments of a graph by their names.
llvm::StringMap<mlir::BlockArgument> argumentsByName(mlir::func::FuncOp graph);

/// The name of an argument, or "".
llvm::StringRef nameOf(mlir::BlockArgument argument);

/// The results as the terminator returns them.
llvm::SmallVector<GraphResult> resultsOf(mlir::func::FuncOp graph);

/// Replaces all results.
void setResults(mlir::func::FuncOp graph, llvm::ArrayRef<GraphResult> results);

/// A dictionary of string attributes.
mlir::DictionaryAttr
stringAttributes(mlir::MLIRContext *context,
                 llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> attributes);

/// The shortest decimal that reads back to `number`.
std::string shortText(double number);

/// Puts the operand of every stow.detach in its place.
void removeDetached(mlir::func::FuncOp graph);

/// Erases ops that nothing reads, last first.
void eraseDeadOps(mlir::func::FuncOp graph);

} // namespace stow
