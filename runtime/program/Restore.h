// State from files: of a saved run, or of weights that others have made.
#pragma once

#include "runtime/data/Element.h"
#include "runtime/data/WeightFiles.h"
#include "runtime/program/Executor.h"

namespace stow {

class WeightNames;

enum class Restore : uint8_t {
  Everything, ///< --resume: every saved tensor must be there
  Parameters, ///< --init-from, eval: parameters and statistics, as other tools may name them (WeightNames.h)
  Frozen,  ///< of these what is not trained, where the rest comes from elsewhere
  Trained, ///< --trained: what --save-trained has written, or PEFT of an adapter
};

/// Further names of a program's state, by its own: those of tied weights.
using WeightAliases = std::map<std::string, std::vector<std::string>>;

/// What a training run changes of a model and others have a use for: parameters and statistics, not the base beside them.
bool isTrained(const StateTensor &tensor);

/// An array of this type and shape holds the numbers that `tensor` is stored quantized of.
bool isNumbersOf(const StateTensor &tensor, const ElementType &type, const Shape &shape);

/// Writes row-major elements of `type` to a tensor of the state, quantized or converted on the way. Their number is right and
/// their type converts. Throws Error(BadInput) naming an integer that does not fit. `done` as in ElementSource.
void writeState(Executor &executor, const StateTensor &tensor, const ElementType &type,
                const char *elements, std::function<void(int64_t, int64_t)> done = {});

/// Which tensor of the files is which of the state.
class Restoration {
public:
  /// Names and shapes must agree; floating types are converted, and numbers quantized. Adapters (isAdapterName) may be missing, all of
  /// them, where parameters alone are asked for. Throws Error(BadInput) listing what is missing or different, or naming the scheme of
  /// other tools that the weights are quantized by. Both outlive this object.
  Restoration(const Program &program, const WeightFiles &files, Restore what,
              const WeightAliases &aliases = {});

  /// Whether apply() writes the state at this position of the program's.
  bool covers(size_t state) const { return found[state] != nullptr; }
  /// "24 adapters are not in FOLDER and start at their first values"; nothing where they are there.
  std::optional<std::string> note() const;

  /// Copies the tensors into the arena, piece by piece: of the files no more than a piece stays in the process's memory.
  void apply(Executor &executor) const;

private:
  struct Problems;
  void find(const StateTensor &tensor, size_t position, const WeightNames &names,
            const WeightAliases &aliases, Problems &problems);

  const Program &program;
  const WeightFiles &files;
  const Restore what;
  std::vector<const SafetensorsTensor *> found; ///< by position in the state; null: not from here
  int64_t missingAdapters = 0;
};

/// The weights that a command starts from: of one file or folder, or of a base and what was trained over it apart.
class ChosenWeights {
public:
  /// `weights` as of --init-from and eval --weights, `trained` of --trained: at least one. Both as Restoration throws; with `trained`
  /// alone every parameter that is not trained must have its value in the program.
  ChosenWeights(const Program &program, const std::optional<std::string> &weights,
                const std::optional<std::string> &trained);

  bool covers(size_t state) const;
  std::optional<std::string> note() const;
  void apply(Executor &executor) const;

private:
  std::optional<WeightFiles> weightFiles, trainedFiles;
  std::vector<Restoration> restorations;
};

/// All of that at once; the rest of the state stays as it is. Returns Restoration::note().
std::optional<std::string> restoreState(Executor &executor, const WeightFiles &files, Restore what,
                                        const WeightAliases &aliases = {});

} // namespace stow
