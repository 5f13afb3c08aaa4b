// The one exception type of the MLIR-free rooms.
//
// Three kinds of failure exist (docs/errors.md): bad input, an infeasible budget, and a broken
// invariant. Each maps to one process exit code. Inside passes, failures are MLIR diagnostics
// instead; no exception crosses an LLVM or MLIR frame.
#pragma once

#include <stdexcept>
#include <string>

namespace stow {

/// What went wrong, as the process reports it. The values are the exit codes of every tool.
enum class ErrorKind : int { BadInput = 1, Infeasible = 2, Internal = 3 };

/// A failure with a message that names the place, what was expected, what was found and the next
/// step. Messages start in lower case and have no final dot.
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, const std::string &message)
      : std::runtime_error(message), errorKind(kind) {}

  ErrorKind kind() const { return errorKind; }
  int exitCode() const { return static_cast<int>(errorKind); }

  static Error badInput(const std::string &message) { return {ErrorKind::BadInput, message}; }
  static Error infeasible(const std::string &message) { return {ErrorKind::Infeasible, message}; }
  static Error internal(const std::string &message) { return {ErrorKind::Internal, message}; }

private:
  ErrorKind errorKind;
};

} // namespace stow
