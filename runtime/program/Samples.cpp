#include "runtime/program/Samples.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/base/Text.h"
#include "runtime/data/Shuffle.h"
#include "runtime/program/Progress.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>

namespace stow {

namespace {

/// Names that data sets use for the only data array and the only target array, most usual first.
const std::vector<std::string> dataNames = {"x", "X", "images", "image", "data", "inputs", "input"};
const std::vector<std::string> targetNames = {"y", "Y", "labels", "label", "targets", "target"};

/// The "epoch" whose order decides which samples are held out; no run gets there.
constexpr uint64_t splitEpoch = std::numeric_limits<uint64_t>::max();

/// Elements that are converted at a time, on the stack.
constexpr int64_t kBlockElements = 1024;

/// Of an input, what one thread brings at a time, worth the call, and what goes to a device at a time, worth a copy.
constexpr Bytes kTaskBytes = Bytes{64} << 10, kPieceBytes = Bytes{4} << 20;

bool isSample(const GraphInput &input) {
  return input.role == InputRole::Data || input.role == InputRole::Target;
}

/// The key of the test array that goes with a training array: x -> x_test, x_train -> x_test.
std::string testKey(const std::string &key) {
  constexpr std::string_view suffix = "_train";
  std::string stem = key.ends_with(suffix) ? key.substr(0, key.size() - suffix.size()) : key;
  return stem + "_test";
}

std::vector<std::string> candidates(const GraphInput &input, bool isOnly, Split split,
                                    const std::optional<std::string> &chosen) {
  if (chosen)
    return {split == Split::Test ? testKey(*chosen) : *chosen};
  std::vector<std::string> stems = {input.name};
  if (isOnly) {
    const auto &usual = input.role == InputRole::Data ? dataNames : targetNames;
    std::ranges::copy_if(usual, std::back_inserter(stems),
                         [&](const std::string &name) { return name != input.name; });
  }
  std::vector<std::string> keys;
  for (const std::string &stem : stems) {
    if (split == Split::Test) {
      keys.push_back(stem + "_test");
    } else {
      keys.push_back(stem);
      keys.push_back(stem + "_train");
    }
  }
  return keys;
}

/// The array that `input`, one of `inputs`, takes; absent where the file has none. What was looked for goes
/// to `names`.
std::optional<std::string> keyOf(const ArrayFile &file, const GraphInput &input,
                                 const std::vector<const GraphInput *> &inputs, Split split,
                                 const KeyChoice &keys, std::vector<std::string> *names = nullptr) {
  const bool isOnly = std::ranges::count(inputs, input.role, &GraphInput::role) == 1;
  const std::vector<std::string> wanted =
      candidates(input, isOnly, split, input.role == InputRole::Data ? keys.x : keys.y);
  if (names)
    *names = wanted;
  auto found = std::ranges::find_if(wanted, [&](const auto &name) { return file.has(name); });
  return found == wanted.end() ? std::nullopt : std::optional(*found);
}

/// A row's dimensions without those of 1: [N,28,28] and [N,1,28,28] hold the same rows.
Shape essentialRow(const Shape &shape) {
  Shape row;
  for (size_t i = 1; i < shape.size(); ++i)
    if (shape[i] != 1)
      row.push_back(shape[i]);
  return row;
}

std::string expectedText(const Operand &place) {
  std::string text = std::string(nameOf(place.dtype)) + "[rows";
  for (size_t i = 1; i < place.shape.size(); ++i)
    append(text, ",", place.shape[i]);
  return text + "]";
}

/// The dimensions in which an array for `input` may differ from it.
const std::set<size_t> *openDims(const GraphInput &input, const Fitting *fitting) {
  if (!fitting)
    return nullptr;
  auto found = fitting->open.find(input.name);
  return found == fitting->open.end() ? nullptr : &found->second;
}

/// True where the array has the sizes of the input but in those dimensions.
bool fitsBut(const std::set<size_t> &open, const Shape &array, const Shape &input) {
  if (array.size() != input.size())
    return false;
  for (size_t dim = 1; dim < array.size(); ++dim)
    if (array[dim] != input[dim] && (!open.contains(dim) || array[dim] == 0))
      return false;
  return true;
}

void checkArray(const Array &array, const GraphInput &input, const Fitting *fitting) {
  auto fail = [&](const std::string &hint) {
    throw Error::badInput(array.place + ": expected " + expectedText(input.place) + " for input '" +
                          input.name + "', found " + describe(array) + hint);
  };
  if (array.shape.empty() && !input.place.shape.empty())
    fail("; the first dimension must count the samples");
  Shape expected = essentialRow(input.place.shape), found = essentialRow(array.shape);
  const std::set<size_t> *open = openDims(input, fitting);
  if (found != expected && !(open && fitsBut(*open, array.shape, input.place.shape))) {
    std::ranges::sort(expected);
    std::ranges::sort(found);
    fail(found == expected ? "; the dimensions are in another order, numpy.transpose helps" : "");
  }
  if (!isConvertible(array.type, input.place.dtype))
    fail("; real numbers are not rounded to whole ones, convert the array first");
}

/// Throws Error(BadInput) naming the first row that holds a value `isFit` refuses.
template <typename Predicate>
void requireValues(const Array &array, const std::string &found, const std::string &expected,
                   Predicate isFit) {
  int64_t perRow = array.rowElements();
  std::vector<int64_t> values(perRow);
  for (int64_t row = 0; row < array.rowCount(); ++row) {
    convertElements(array.type, array.row(row), DType::I64, reinterpret_cast<char *>(values.data()),
                    perRow);
    auto wrong = std::ranges::find_if_not(values, isFit);
    if (wrong != values.end())
      throw Error::badInput(
          concat(array.place, ": row ", row, " ", found, *wrong, "; expected ", expected));
  }
}

/// Indices outside their table are refused before the first step reads one.
void checkIndices(const Array &array, const GraphInput &input) {
  int64_t rows = input.indexedRows;
  if (rows > 0)
    requireValues(array, "holds the index ",
                  concat("one from ", -rows, " to ", rows - 1, ", as input '", input.name,
                         "' reads a table of ", rows, " rows"),
                  [&](int64_t value) { return value >= -rows && value < rows; });
  if (input.labelClasses > 0)
    checkLabels(array, input.labelClasses, input.ignoredLabel);
}

/// Whether any of `count` values of an IEEE type, held in words of its size, has all bits of
/// `exponent` set: NaN and the infinities. Without a branch per value, so that it is vectorized.
template <typename Word> bool anyNonFinite(const char *values, int64_t count, Word exponent) {
  Word found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, values + i * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

bool hasNonFinite(DType type, const char *values, int64_t count) {
  switch (type) {
  case DType::F64:
    return anyNonFinite<uint64_t>(values, count, uint64_t{0x7FF} << 52);
  case DType::F32:
    return anyNonFinite<uint32_t>(values, count, uint32_t{0xFF} << 23);
  case DType::F16:
    return anyNonFinite<uint16_t>(values, count, 0x7C00);
  case DType::BF16:
    return anyNonFinite<uint16_t>(values, count, 0x7F80);
  default:
    return false;
  }
}

/// Throws an error that names the first row of `array` with NaN or an infinity, as an input of
/// `type` takes it; there is one.
[[noreturn]] void failNonFinite(const Array &array, DType type) {
  int64_t count = array.rowElements(), row = -1;
  std::vector<char> values(static_cast<size_t>(count * sizeOf(type)));
  do
    convertElements(array.type, array.row(++row), type, values.data(), count);
  while (!hasNonFinite(type, values.data(), count));
  int64_t at = -1;
  double value = 0;
  do
    toDoubles(type, values.data() + ++at * sizeOf(type), &value, 1);
  while (std::isfinite(value));
  throw Error::badInput(concat(array.place, ": row ", row, " holds ",
                               std::isnan(value) ? "NaN"
                               : value > 0       ? "infinity"
                                                 : "-infinity",
                               " (element ", at, " of ", count, ", as ", nameOf(type),
                               "); mend or drop the row, or go on with --allow-nonfinite"));
}

} // namespace

void checkSample(const Array &array, const GraphInput &input, const Fitting *fitting) {
  checkArray(array, input, fitting);
  checkIndices(array, input);
}

std::vector<const GraphInput *> sampleInputs(const GraphProgram &graph) {
  std::vector<const GraphInput *> inputs;
  for (const GraphInput &input : graph.inputs)
    if (isSample(input))
      inputs.push_back(&input);
  return inputs;
}

std::optional<Samples> loadSamples(const ArrayFile &file, const GraphProgram &graph, Split split,
                                   const KeyChoice &keys, const Fitting *fitting) {
  std::vector<const GraphInput *> inputs = sampleInputs(graph);
  Samples samples;
  for (const GraphInput *input : inputs) {
    bool isOnly = std::ranges::count(inputs, input->role, &GraphInput::role) == 1;
    const char *flag = input->role == InputRole::Data ? "--x" : "--y";
    const auto &chosen = input->role == InputRole::Data ? keys.x : keys.y;
    if (chosen && !isOnly)
      throw Error::badInput(std::string(flag) + ": the model has several such inputs; name the " +
                            "arrays after them, for example '" + input->name + "'");
    std::vector<std::string> names;
    const std::optional<std::string> found = keyOf(file, *input, inputs, split, keys, &names);
    if (!found && split == Split::Test)
      return std::nullopt;
    if (!found)
      throw Error::badInput(file.path() + ": no array for input '" + input->name +
                            "': looked for " + joined(names) + "; the file holds " +
                            joined(file.names()) +
                            (isOnly ? "; choose one with " + std::string(flag) + "=NAME" : ""));
    Array array = file.load(*found);
    checkArray(array, *input, fitting);
    if (!samples.byInput.empty() && array.rowCount() != samples.rowCount)
      throw Error::badInput(concat(array.place, ": expected ", samples.rowCount,
                                   " rows as in array '", samples.byInput.begin()->second.name,
                                   "', found ", array.rowCount()));
    checkIndices(array, *input);
    samples.rowCount = array.rowCount();
    samples.byInput.emplace(input->name, std::move(array));
  }
  samples.isConstant = true;
  if (samples.byInput.empty())
    throw Error::badInput("graph '" + graph.name() + "' of the program has no data inputs");
  return samples;
}

std::vector<std::string> unreadArrays(const ArrayFile &file, const GraphProgram &graph,
                                      const KeyChoice &keys) {
  const std::vector<const GraphInput *> inputs = sampleInputs(graph);
  std::set<std::string> read;
  for (const GraphInput *input : inputs)
    for (Split split : {Split::Train, Split::Test})
      if (auto key = keyOf(file, *input, inputs, split, keys))
        read.insert(*key);
  std::vector<std::string> unread;
  std::ranges::copy_if(file.names(), std::back_inserter(unread),
                       [&](const std::string &name) { return !read.contains(name); });
  return unread;
}

void warnOfUnreadArrays(const ArrayFile &file, const GraphProgram &graph, const KeyChoice &keys) {
  std::vector<std::string> inputs;
  for (const GraphInput *input : sampleInputs(graph))
    inputs.push_back(input->name);
  for (const std::string &name : unreadArrays(file, graph, keys))
    printWarning(concat(file.path(), ": nothing reads the array '", name,
                        "'; the inputs of the program are ", joined(inputs)));
}

void checkLabels(const Array &labels, int64_t classes, int64_t ignoreIndex) {
  bool ignores = ignoreIndex != std::numeric_limits<int64_t>::min();
  requireValues(
      labels, "has the label ",
      concat("a class from 0 to ", classes - 1,
             ignores ? concat(" or ignore_index ", ignoreIndex) : ""),
      [&](int64_t value) { return value == ignoreIndex || (value >= 0 && value < classes); });
}

void checkProbabilities(const Array &targets) {
  std::vector<double> values(static_cast<size_t>(targets.rowElements()));
  for (int64_t row = 0; row < targets.rowCount(); ++row) {
    convertElements(targets.type, targets.row(row), DType::F64,
                    reinterpret_cast<char *>(values.data()), targets.rowElements());
    for (double value : values)
      if (!(value >= 0))
        throw Error::badInput(concat(targets.place, ": row ", row, " holds ", std::to_string(value),
                                     "; the loss expects probabilities of at least 0"));
  }
}

void requireRoom(const GraphProgram &graph, const Samples &samples, const std::string &path) {
  for (const GraphInput &input : graph.inputs)
    if (input.keptRows && samples.rowCount > *input.keptRows)
      throw Error::badInput(concat(path, ": expected at most ", *input.keptRows,
                                   " samples, as the program keeps on its device, found ",
                                   samples.rowCount,
                                   "; compile with --data-on-device=", samples.rowCount));
}

std::vector<int64_t> allRows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

Rows splitRows(int64_t count, double fraction, uint64_t seed) {
  Rows rows;
  rows.train = allRows(count);
  if (fraction <= 0)
    return rows;
  shuffleEpoch(rows.train, seed, splitEpoch);
  auto kept = static_cast<int64_t>(std::ceil(static_cast<double>(count) * (1 - fraction)));
  rows.validation.assign(rows.train.begin() + kept, rows.train.end());
  rows.train.resize(static_cast<size_t>(kept));
  std::ranges::sort(rows.train);
  std::ranges::sort(rows.validation);
  return rows;
}

RowReader::RowReader(const Array &array, const GraphInput &input, NonFinite nonFinite,
                     const Fitting *fitting)
    : array(array), input(input), nonFinite(nonFinite), fitting(fitting) {
  const DType type = input.place.dtype;
  if (fitting)
    if (auto label = fitting->ignored.find(input.name); label != fitting->ignored.end()) {
      const std::vector<int64_t> labels(static_cast<size_t>(elements()), label->second);
      ignored.resize(labels.size() * static_cast<size_t>(sizeOf(type)));
      convertElements(elementTypeOf(DType::I64), reinterpret_cast<const char *>(labels.data()),
                      type, ignored.data(), elements());
    }
  checkArray(array, input, fitting);
  follow();
}

void RowReader::follow() {
  if (array.shape == followed && !converted.empty())
    return;
  followed = array.shape;
  converted.resize(
      std::max<size_t>(static_cast<size_t>(array.rowElements() * sizeOf(input.place.dtype)), 1));
  runs.clear();
  padsTargets = false;
  const std::set<size_t> *open = openDims(input, fitting);
  if (open && array.shape.size() == input.place.shape.size() &&
      essentialRow(array.shape) != essentialRow(input.place.shape))
    fit();
}

int64_t RowReader::elements() const {
  const Shape &shape = input.place.shape;
  return shape.empty() ? 1 : elementCount(shape) / std::max<int64_t>(shape[0], 1);
}

/// The box that both have, as runs of the last dimension.
void RowReader::fit() {
  const Bytes width = sizeOf(input.place.dtype);
  const Shape from(array.shape.begin() + 1, array.shape.end());
  const Shape to(input.place.shape.begin() + 1, input.place.shape.end());
  fitted.assign(static_cast<size_t>(elements() * width), 0);
  if (!ignored.empty())
    fitted = ignored;
  for (size_t dim = 0; dim < from.size(); ++dim)
    padsTargets |= input.role == InputRole::Target && ignored.empty() && from[dim] < to[dim];
  runs.push_back({0, 0, width});
  Bytes fromStride = width, toStride = width;
  for (size_t dim = from.size(); dim-- > 0;) {
    const int64_t common = std::min(from[dim], to[dim]);
    std::vector<Run> wider;
    if (dim + 1 == from.size())
      wider.push_back({0, 0, common * width});
    else
      for (int64_t i = 0; i < common; ++i)
        for (const Run &run : runs)
          wider.push_back({run.from + i * fromStride, run.to + i * toStride, run.bytes});
    runs = std::move(wider);
    fromStride *= from[dim];
    toStride *= to[dim];
  }
}

const char *RowReader::row(int64_t row) {
  const DType type = input.place.dtype;
  const char *source = array.row(row);
  bool isAligned = reinterpret_cast<uintptr_t>(source) % sizeOf(type) == 0;
  if (array.type != elementTypeOf(type) || !isAligned) {
    try {
      convertElements(array.type, source, type, converted.data(), array.rowElements());
    } catch (const Error &error) {
      throw Error::badInput(concat(array.place, ": row ", row, ": ", error.what()));
    }
    source = converted.data();
  }
  if (nonFinite == NonFinite::Refused && hasNonFinite(type, source, array.rowElements()))
    failNonFinite(array, type);
  if (runs.empty())
    return source;
  if (padsTargets)
    throw Error::badInput(concat(array.place, ": every target of this loss counts, and ",
                                 describe(array), " would be padded; expected rows of the shape ",
                                 shapeText(input.place.shape)));
  for (const Run &run : runs)
    std::memcpy(fitted.data() + run.to, source + run.from, static_cast<size_t>(run.bytes));
  return fitted.data();
}

bool RowReader::bring(int64_t row, int64_t first, int64_t count, bool isFinite,
                      TensorUpload &upload, int64_t to) const {
  const DType type = input.place.dtype;
  const char *source = array.row(row) + first * array.type.bytes;
  const bool isLookedAt = nonFinite == NonFinite::Refused && !isFinite;
  if (array.type == elementTypeOf(type) &&
      reinterpret_cast<uintptr_t>(source) % sizeOf(type) == 0) {
    if (isLookedAt && hasNonFinite(type, source, count))
      return false;
    upload.store(to, to + count, source);
    return true;
  }
  alignas(8) char block[kBlockElements * 8];
  for (int64_t done = 0; done < count; done += kBlockElements) {
    const int64_t size = std::min(kBlockElements, count - done);
    try {
      convertElements(array.type, source + done * array.type.bytes, type, block, size);
    } catch (const Error &) {
      return false;
    }
    if (isLookedAt && hasNonFinite(type, block, size))
      return false;
    upload.store(to + done, to + done + size, block);
  }
  return true;
}

const char *RowReader::filling(int64_t row) {
  return ignored.empty() ? this->row(row) : ignored.data();
}

Feeder::Feeder(const GraphProgram &graph, const Samples &samples, NonFinite nonFinite,
               const Fitting *fitting)
    : sampleCount(samples.rowCount), fillsRows(fitting && fitting->fillsRows) {
  for (const GraphInput &input : graph.inputs)
    if (input.role == InputRole::Rows)
      numbers = &input;
  for (const GraphInput *input : sampleInputs(graph)) {
    auto found = samples.byInput.find(input->name);
    if (found == samples.byInput.end())
      throw Error::badInput("input '" + input->name + "' of graph '" + graph.name() +
                            "' has no array");
    channels.push_back({input, RowReader(found->second, *input, nonFinite, fitting),
                        samples.whole.contains(input->name),
                        std::vector<bool>(samples.isConstant ? samples.rowCount : 0)});
  }
}

void Feeder::write(Executor &executor, std::span<const int64_t> rows) {
  const auto given = static_cast<int64_t>(rows.size());
  for (Channel &channel : channels) {
    if (channel.input->keptRows)
      continue;
    const Operand &place = channel.input->place;
    const int64_t rowElements = channel.reader.elements();
    channel.reader.follow();
    const int64_t count = place.shape.empty() ? 1 : place.shape[0];
    if (!channel.isWhole && count != given && !(fillsRows && 0 < given && given < count))
      throw Error::badInput(
          concat("input '", channel.input->name, "' takes ", count, " rows, a batch has ", given));
    if (channel.reader.isPlain() && !channel.isWhole && count == given) {
      bring(channel, executor, place, rows);
      continue;
    }
    TensorUpload upload(executor.device(), place);
    for (int64_t i = 0; i < count; ++i)
      upload.store(i * rowElements, (i + 1) * rowElements,
                   channel.isWhole ? channel.reader.row(i)
                   : i < given     ? channel.reader.row(rows[i])
                                   : channel.reader.filling(rows[0]));
    upload.finish();
  }
  if (numbers) {
    const int64_t count = numbers->place.shape.front();
    if (count != given)
      throw Error::badInput(concat("input '", numbers->name, "' takes the numbers of ", count,
                                   " samples, a batch has ", given));
    TensorUpload upload(executor.device(), numbers->place);
    upload.store(0, count, rows.data());
    upload.finish();
  }
}

/// Rows that come as they are, by several threads, in pieces of which each is on its way while the next is made.
void Feeder::bring(Channel &channel, Executor &executor, const Operand &place,
                   std::span<const int64_t> rows) {
  const int64_t elements = channel.reader.elements();
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t ofTask = std::max<int64_t>(kTaskBytes / sizeOf(place.dtype), 1);
  const int64_t ofPiece =
      std::max<int64_t>(kPieceBytes / std::max<int64_t>(elements * sizeOf(place.dtype), 1), 1);
  TensorUpload upload(executor.device(), place);
  for (int64_t sent = 0; sent < count;) {
    const int64_t end = std::min(sent + ofPiece, count);
    const int64_t begin = sent * elements, all = (end - sent) * elements;
    std::atomic<int64_t> wrong = count; // the first row with a wrong value
    parallelFor((all + ofTask - 1) / ofTask, executor.threads(), [&](int64_t task, int64_t last) {
      int64_t at = begin + task * ofTask;
      const int64_t to = begin + std::min(last * ofTask, all);
      while (at < to) {
        const int64_t number = at / elements, first = at % elements;
        const int64_t size = std::min(elements - first, to - at);
        const int64_t row = rows[static_cast<size_t>(number)];
        const bool isFinite =
            !channel.isFinite.empty() && channel.isFinite[static_cast<size_t>(row)];
        if (!channel.reader.bring(row, first, size, isFinite, upload, at)) {
          int64_t known = wrong.load();
          while (number < known && !wrong.compare_exchange_weak(known, number)) {
          }
          return;
        }
        at += size;
      }
    });
    if (wrong < count) {
      channel.reader.row(rows[static_cast<size_t>(wrong)]);
      throw Error::badInput(concat("row ", rows[static_cast<size_t>(wrong)], " for input '",
                                   channel.input->name, "' has changed while it was read"));
    }
    sent = end;
    upload.send(sent);
  }
  if (!channel.isFinite.empty())
    for (int64_t row : rows)
      channel.isFinite[static_cast<size_t>(row)] = true;
  upload.finish();
}

/// By as many as a batch has, for which the device has room on the way.
void Feeder::keep(Executor &executor) {
  const std::vector<int64_t> all = allRows(sampleCount);
  for (Channel &channel : channels) {
    if (!channel.input->keptRows)
      continue;
    const Operand &place = channel.input->place;
    const int64_t elements = channel.reader.elements();
    for (int64_t first = 0; first < sampleCount; first += place.shape.front()) {
      Operand part = place;
      part.offset += first * elements * sizeOf(place.dtype);
      part.shape.front() = std::min(place.shape.front(), sampleCount - first);
      bring(channel, executor, part,
            std::span(all).subspan(static_cast<size_t>(first),
                                   static_cast<size_t>(part.shape.front())));
    }
  }
}

} // namespace stow
