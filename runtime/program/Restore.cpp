#include "runtime/program/Restore.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"
#include "runtime/program/WeightNames.h"

#include <cstring>

namespace stow {

namespace {

std::string typeText(DType dtype, const Shape &shape) {
  return std::string(nameOf(dtype)) + shapeText(shape);
}

bool isOfModel(const StateTensor &tensor) {
  return tensor.kind == BufferKind::Parameter || tensor.kind == BufferKind::Frozen ||
         tensor.kind == BufferKind::Statistic;
}

bool fits(const StateTensor &tensor, const SafetensorsTensor &found) {
  const ElementType type = elementTypeOf(found.dtype);
  return isNumbersOf(tensor, type, found.shape) ||
         (found.shape == tensor.place.shape && isConvertible(type, tensor.place.dtype));
}

} // namespace

bool isNumbersOf(const StateTensor &tensor, const ElementType &type, const Shape &shape) {
  return tensor.quantized && shape == tensor.quantized->shape && isConvertible(type, DType::F32) &&
         !type.isInteger();
}

void writeState(Executor &executor, const StateTensor &tensor, const ElementType &type,
                const char *elements, std::function<void(int64_t, int64_t)> done) {
  const bool isNumbers = tensor.quantized && !type.isInteger();
  const DType to = isNumbers ? DType::F32 : tensor.place.dtype;
  const bool isSame = type == elementTypeOf(to);
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
    if (!tensor.saved || (what != Restore::Everything && !isOfModel(tensor)))
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
  const SafetensorsTensor *tensorThere = isOwn ? files.find(tensor.name) : names.find(tensor.name);
  if (auto others = aliases.find(tensor.name); !isOwn && !tensorThere && others != aliases.end())
    for (const std::string &other : others->second)
      if ((tensorThere = names.find(other)))
        break;
  if (tensorThere && fits(tensor, *tensorThere)) {
    found[position] = tensorThere;
    return;
  }
  const Operand &place = tensor.place;
  const std::string expected =
      tensor.quantized ? "numbers " + shapeText(tensor.quantized->shape) + " or their " +
                             std::string(nameOf(tensor.quantized->scheme)) + " bytes " +
                             typeText(place.dtype, place.shape)
                       : typeText(place.dtype, place.shape);
  if (tensorThere)
    problems.note(concat("'", tensorThere->name, "': expected ", expected, ", found ",
                         typeText(tensorThere->dtype, tensorThere->shape)));
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

std::optional<std::string> restoreState(Executor &executor, const WeightFiles &files, Restore what,
                                        const WeightAliases &aliases) {
  const Restoration restoration(executor.program(), files, what, aliases);
  restoration.apply(executor);
  return restoration.note();
}

} // namespace stow
