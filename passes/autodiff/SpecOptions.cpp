#include "passes/autodiff/SpecOptions.h"

#include "runtime/base/Error.h"

namespace stow {
namespace {

void read(llvm::StringRef text, LossSpec &value) { value = parseLoss(text.str()); }
void read(llvm::StringRef text, OptimizerSpec &value) { value = parseOptimizer(text.str()); }
void read(llvm::StringRef text, ParameterGroup &value) { value = parseGroup(text.str()); }

std::string textOf(const LossSpec &value) { return stow::print(value); }
std::string textOf(const OptimizerSpec &value) { return value.text; }
std::string textOf(const ParameterGroup &value) { return stow::print(value); }

} // namespace

template <typename Spec>
bool SpecParser<Spec>::parse(llvm::cl::Option &option, llvm::StringRef, llvm::StringRef text,
                             Spec &value) {
  try {
    read(text, value);
    return false;
  } catch (const Error &error) {
    return option.error(error.what());
  }
}

template <typename Spec> void SpecParser<Spec>::print(llvm::raw_ostream &os, const Spec &value) {
  os << "{" << textOf(value) << "}";
}

template class SpecParser<LossSpec>;
template class SpecParser<OptimizerSpec>;
template class SpecParser<ParameterGroup>;

} // namespace stow
