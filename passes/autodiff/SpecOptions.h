// Losses, optimizers and groups of parameters as options of passes: stowage-opt reads their text, C++
// gives the values.
#pragma once

#include "runtime/format/Loss.h"
#include "runtime/format/Optimizer.h"

#include "mlir/Pass/PassOptions.h"

namespace stow {

/// Reads one option with the function that reads it on the compiler's command line, too.
template <typename Spec> class SpecParser : public llvm::cl::basic_parser<Spec> {
public:
  using llvm::cl::basic_parser<Spec>::basic_parser;

  /// True, after an error, where `text` cannot be read.
  bool parse(llvm::cl::Option &option, llvm::StringRef, llvm::StringRef text, Spec &value);
  static void print(llvm::raw_ostream &os, const Spec &value);
  void printOptionDiff(const llvm::cl::Option &, const Spec &, const llvm::cl::OptionValue<Spec> &,
                       size_t) const {}
  void anchor() override {}
};

} // namespace stow

namespace llvm::cl {

template <> class parser<stow::LossSpec> : public stow::SpecParser<stow::LossSpec> {
  using SpecParser::SpecParser;
};
template <> class parser<stow::OptimizerSpec> : public stow::SpecParser<stow::OptimizerSpec> {
  using SpecParser::SpecParser;
};
template <> class parser<stow::ParameterGroup> : public stow::SpecParser<stow::ParameterGroup> {
  using SpecParser::SpecParser;
};

} // namespace llvm::cl
