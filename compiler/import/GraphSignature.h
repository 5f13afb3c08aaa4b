// What a PyTorch export says about itself: which inputs of the exported program are parameters, and
// from which operation of the program each node was made.
//
// torch.export's graph signature, as the exporter writes it into the graph's metadata:
//   # inputs
//   p_bn1_weight: PARAMETER target='bn1.weight'
//   b_bn1_running_mean: BUFFER target='bn1.running_mean' persistent=True
//   x: USER_INPUT
//   # outputs
//   getitem_3: BUFFER_MUTATION target='bn1.running_mean'
//   linear: USER_OUTPUT
// The target is the name in the module's state dict and that of the initializer; the first word is
// what the operations of the program call it ("args = (%x, %p_bn1_weight, ...)").
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stow::onnx {

struct GraphSignature {
  enum class Kind { Parameter, Buffer, Constant, UserInput, Other };
  struct Entry {
    Kind kind = Kind::Other;
    std::string argument; ///< "p_bn1_weight"
    std::string target;   ///< "bn1.weight"; empty for user inputs
  };
  std::vector<Entry> inputs;               ///< in the program's order
  std::set<std::string> mutatedParameters; ///< targets that the module's own forward writes
  std::set<std::string> mutatedBuffers; ///< targets that the program writes: it was made to train
  std::set<std::string>
      frozen; ///< parameters that ask for no gradient, as stowage.export lists them
  std::map<std::string, std::string>
      stored; ///< bfloat16 or float16, where the module keeps a parameter in less than the file
  /// Of a parameter that the module has under several names the others, by the file's.
  std::map<std::string, std::vector<std::string>> otherNames;
  /// Of all values of the file, those that the module has in 16 bits, likewise; those of a module in float32 are not listed.
  std::map<std::string, std::string> types;
  /// Outputs of the file that are next values of buffers, with the buffers' names, as stowage.export
  /// lists them: "OUTPUT BUFFER", tabs between, a line each.
  std::map<std::string, std::string> nextValues;
  /// stowage.export left the modes of parts as they were in a module in training mode.
  bool keepsModes = false;

  /// The entry whose target is `name`; null when the signature does not list it.
  const Entry *find(const std::string &name) const;

  /// True for a buffer whose next value the file holds.
  bool hasNextValue(const std::string &name) const;

  /// The entry that operations call `argument`; null for results of operations.
  const Entry *findArgument(const std::string &argument) const;

  std::map<std::string, size_t> byTarget, byArgument; ///< indices into `inputs`
};

/// Reads the text. Throws Error(BadInput) with the number of a line that has another form.
GraphSignature parseGraphSignature(std::string_view text);

/// Reads GraphSignature::nextValues. Throws Error(BadInput) for a line of another form, and where a buffer is
/// listed twice or is none of `signature`'s.
std::map<std::string, std::string> parseNextValues(const std::string &text,
                                                   const GraphSignature &signature);

/// Reads GraphSignature::stored and types, lines of "NAME TYPE" with a tab between them; types are bfloat16 and float16.
/// Throws Error(BadInput) for a line of another form.
std::map<std::string, std::string> parseStoredTypes(const std::string &text);

/// Reads GraphSignature::otherNames, lines of "NAME OTHER" with a tab between them. Throws Error(BadInput) for a line of another form.
std::map<std::string, std::vector<std::string>> parseOtherNames(const std::string &text);

/// Names that an operation of the program reads, in order: "%linear : ... args = (%x, %p_w, 2)"
/// gives x and p_w.
std::vector<std::string> argumentsOf(std::string_view fxNode);

/// What the operation is given at a position, as it is written: "%p_w" or "2"; empty for a list, and
/// when it has fewer arguments.
std::string argumentOf(std::string_view fxNode, size_t position);

/// The operation's name without its namespace: "layer_norm.default", or empty.
std::string operationOf(std::string_view fxNode);

} // namespace stow::onnx
