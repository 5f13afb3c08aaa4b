#include "runtime/program/Restore.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/base/Text.h"
#include "runtime/program/ShardedState.h"
#include "runtime/program/WeightNames.h"

#include <algorithm>
#include <cstring>

namespace stow {

namespace {

std::string typeText(DType dtype, const Shape &shape) {
  return std::string(nameOf(dtype)) + shapeText(shape);
}

bool isWanted(const StateTensor &tensor, Restore what) {
  const bool isFrozen = tensor.kind == BufferKind::Frozen;
  switch (what) {
  case Restore::Everything:
    return true;
  case Restore::Parameters:
    return isFrozen || isTrained(tensor);
  case Restore::Frozen:
    return isFrozen;
  case Restore::Trained:
    return isTrained(tensor);
  }
  return false;
}

bool fits(const StateTensor &tensor, const SafetensorsTensor &found) {
  const ElementType type = elementTypeOf(found.dtype);
  return isNumbersOf(tensor, type, found.shape) ||
         (found.shape == wholeShape(tensor) && isConvertible(type, tensor.place.dtype));
}

} // namespace

bool isTrained(const StateTensor &tensor) {
  return tensor.saved &&
         (tensor.kind == BufferKind::Parameter || tensor.kind == BufferKind::Statistic);
}

bool isNumbersOf(const StateTensor &tensor, const ElementType &type, const Shape &shape) {
  return tensor.quantized && shape == tensor.quantized->shape && isConvertible(type, DType::F32) &&
         !type.isInteger();
}

/// Of the elements of all shards those of this rank's, zero behind the end.
static void writeShard(Executor &executor, const StateTensor &tensor, const ElementType &type,
                       const char *elements, std::function<void(int64_t, int64_t)> done) {
  const ShardRange own =
      shardRange(elementCount(*tensor.shardOf), executor.program().devices, executor.rank());
  auto there = [own](int64_t first, int64_t count) {
    return std::clamp<int64_t>(own.size() - first, 0, count);
  };
  ElementSource source;
  source.elements = [&](int64_t first, int64_t count, char *target) {
    const int64_t given = there(first, count);
    convertElements(type, elements + (own.begin + first) * type.bytes, tensor.place.dtype, target,
                    given);
    std::memset(target + given * sizeOf(tensor.place.dtype), 0,
                static_cast<size_t>((count - given) * sizeOf(tensor.place.dtype)));
  };
  if (done)
    source.done = [&](int64_t first, int64_t count) {
      done(own.begin + first, there(first, count));
    };
  executor.writeTensor(tensor.place, source);
}

void writeState(Executor &executor, const StateTensor &tensor, const ElementType &type,
                const char *elements, std::function<void(int64_t, int64_t)> done) {
  const bool isNumbers = tensor.quantized && !type.isInteger();
  const DType to = isNumbers ? DType::F32 : tensor.place.dtype;
  const bool isSame = type == elementTypeOf(to);
  if (tensor.shardOf)
    return writeShard(executor, tensor, type, elements, std::move(done));
  const ElementSource source = {[&](int64_t first, int64_t count, char *target) {
                                  const char *from = elements + first * type.bytes;
                                  if (isSame)
                                    std::memcpy(target, from,
                                                static_cast<size_t>(count * type.bytes));
                                  else
                                    convertElements(type, from, to, target, count);
                                },
                                isSame || !elementTypeOf(to).isInteger(), std::move(done)};
  isNumbers ? executor.writeQuantized(tensor, source) : executor.writeTensor(tensor.place, source);
}

struct Restoration::Problems {
  static constexpr int64_t most = 10; ///< told
  std::string text;
  int64_t count = 0;

  void note(const std::string &problem) {
    if (++count <= most)
      text += "\n  " + problem;
  }
  void require(const WeightFiles &files) const {
    if (count == 0)
      return;
    if (const std::optional<std::string> scheme = foreignScheme(files))
      throw Error::badInput(
          concat(files.path(), ": the weights are quantized by ", *scheme,
                 ", which is not read; expected f32, bf16 or f16, as the model had them before: "
                 "--frozen=nf4 or int8 quantizes those of a program while they are loaded"));
    throw Error::badInput(
        concat(files.path(), ": the weights do not fit this model:", text,
               count > most ? concat("\n  and ", count - most, " more") : std::string()));
  }
};

Restoration::Restoration(const Program &program, const WeightFiles &files, Restore what,
                         const WeightAliases &aliases)
    : program(program), files(files), what(what), found(program.state.size()) {
  std::vector<std::string> wanted;
  std::vector<size_t> positions;
  for (size_t i = 0; i < program.state.size(); ++i) {
    const StateTensor &tensor = program.state[i];
    if (!tensor.saved || !isWanted(tensor, what))
      continue;
    wanted.push_back(tensor.name);
    positions.push_back(i);
  }
  const WeightNames names(files, wanted);
  Problems problems;
  int64_t adapters = 0;
  std::string adapter;
  for (size_t position : positions) {
    const StateTensor &tensor = program.state[position];
    find(tensor, position, names, aliases, problems);
    const bool mayMiss = what == Restore::Parameters && isAdapterName(tensor.name);
    adapters += mayMiss;
    if (found[position])
      continue;
    if (mayMiss && missingAdapters++ == 0)
      adapter = tensor.name;
  }
  if (missingAdapters > 0 && missingAdapters < adapters)
    problems.note(concat("'", adapter, "' is missing, and ", adapters - missingAdapters,
                         " other adapters are there"));
  problems.require(files);
}

void Restoration::find(const StateTensor &tensor, size_t position, const WeightNames &names,
                       const WeightAliases &aliases, Problems &problems) {
  // A run's own file has the names of its state.
  const bool isOwn = what == Restore::Everything;
  const SafetensorsTensor *tensorThere =
      what == Restore::Trained ? files.find(trainedName(tensor.name)) : nullptr;
  if (!tensorThere)
    tensorThere = isOwn ? files.find(tensor.name) : names.find(tensor.name);
  std::vector<std::string> others = tensor.otherNames;
  if (auto given = aliases.find(tensor.name); given != aliases.end())
    others.insert(others.end(), given->second.begin(), given->second.end());
  for (size_t i = 0; i < others.size() && !isOwn && !tensorThere; ++i)
    tensorThere = names.find(others[i]);
  if (tensorThere && fits(tensor, *tensorThere)) {
    found[position] = tensorThere;
    return;
  }
  const Operand &place = tensor.place;
  const std::string expected =
      tensor.quantized ? "numbers " + shapeText(tensor.quantized->shape) + " or their " +
                             std::string(nameOf(tensor.quantized->scheme)) + " bytes " +
                             typeText(place.dtype, place.shape)
                       : typeText(place.dtype, wholeShape(tensor));
  if (tensorThere)
    problems.note(concat("'", tensorThere->name, "': expected ", expected, ", found ",
                         typeText(tensorThere->dtype, tensorThere->shape)));
  else if (what == Restore::Trained)
    problems.note(concat("'", trainedName(tensor.name), "' is missing",
                         tensor.kind == BufferKind::Statistic
                             ? ", a running statistic: --save-trained writes it, and PEFT where "
                               "modules_to_save names its module"
                             : ""));
  else if (isOwn || !isAdapterName(tensor.name))
    problems.note(concat("'", isOwn ? tensor.name : bareName(tensor.name), "' is missing"));
}

std::optional<std::string> Restoration::note() const {
  if (missingAdapters == 0)
    return std::nullopt;
  return concat(missingAdapters, " adapters are not in ", files.path(),
                " and start at their first values");
}

void Restoration::apply(Executor &executor) const {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i])
      continue;
    const std::span<const char> bytes = found[i]->bytes;
    const ElementType type = elementTypeOf(found[i]->dtype);
    writeState(executor, program.state[i], type, bytes.data(), [&](int64_t first, int64_t count) {
      releasePages(bytes.subspan(static_cast<size_t>(first * type.bytes),
                                 static_cast<size_t>(count * type.bytes)));
    });
  }
}

ChosenWeights::ChosenWeights(const Program &program, const std::optional<std::string> &weights,
                             const std::optional<std::string> &trained) {
  restorations.reserve(2);
  if (weights)
    restorations.emplace_back(program, weightFiles.emplace(*weights),
                              trained ? Restore::Frozen : Restore::Parameters);
  if (!trained)
    return;
  restorations.emplace_back(program, trainedFiles.emplace(*trained), Restore::Trained);
  for (const StateTensor &tensor : program.state)
    if (!weights && tensor.saved && tensor.kind == BufferKind::Frozen &&
        tensor.init.kind != Init::Kind::Data)
      throw Error::badInput(concat("--trained=", *trained, " has what is trained, and '",
                                   tensor.name,
                                   "', which is not, has no value in this program; expected the "
                                   "base's weights beside it: --init-from=PATH of train, "
                                   "--weights=PATH of eval"));
}

bool ChosenWeights::covers(size_t state) const {
  return std::ranges::any_of(restorations,
                             [&](const Restoration &one) { return one.covers(state); });
}

std::optional<std::string> ChosenWeights::note() const { return restorations.front().note(); }

void ChosenWeights::apply(Executor &executor) const {
  for (const Restoration &one : restorations)
    one.apply(executor);
}

std::optional<std::string> restoreState(Executor &executor, const WeightFiles &files, Restore what,
                                        const WeightAliases &aliases) {
  const Restoration restoration(executor.program(), files, what, aliases);
  restoration.apply(executor);
  return restoration.note();
}

} // namespace stow
