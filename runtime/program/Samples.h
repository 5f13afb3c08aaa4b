// Which array feeds which input of a program, and how rows get into the arena.
#pragma once

#include "runtime/data/ArrayFile.h"
#include "runtime/program/Executor.h"
#include "runtime/program/Metrics.h"
#include "runtime/program/ShapeChoice.h"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace stow {

/// Arrays the user named; otherwise they are found by name (see loadSamples).
struct KeyChoice {
  std::optional<std::string> x, y;
};

enum class Split : uint8_t { Train, Test };

/// The arrays behind the Data and Target inputs of a graph. All have the same number of rows, but
/// those that every batch reads as they are.
struct Samples {
  std::map<std::string, Array> byInput;
  int64_t rowCount = 0;
  std::set<std::string> whole; ///< inputs whose array is no row for each sample: edges of a graph
  bool isConstant = false;     ///< rows stay what they are: a feeder looks for NaN in each once
};

/// The Data and Target inputs of a graph.
std::vector<const GraphInput *> sampleInputs(const GraphProgram &graph);

/// Finds, loads and checks an array for every sample input of `graph`.
///
/// The array of input `pixels` is `pixels` or `pixels_train`; the only Data input also takes `x` or
/// `x_train`, the only Target input `y` or `y_train` (further common names: see the source). For
/// the test split the names end in `_test`; absent when there are none. Shapes must agree beyond
/// the row dimension, up to dimensions of 1, and types must be convertible (Element.h); values that
/// index a table must lie in it. With `fitting`, sizes may differ where the shapes of the program do. Throws
/// Error(BadInput) naming array, expected and found.
std::optional<Samples> loadSamples(const ArrayFile &file, const GraphProgram &graph, Split split,
                                   const KeyChoice &keys, const Fitting *fitting = nullptr);

/// The arrays of `file` that no sample input of `graph` takes, in neither split.
std::vector<std::string> unreadArrays(const ArrayFile &file, const GraphProgram &graph,
                                      const KeyChoice &keys);

/// Names each of them on standard error: it may be meant for an input.
void warnOfUnreadArrays(const ArrayFile &file, const GraphProgram &graph, const KeyChoice &keys);

/// Throws Error(BadInput) when `array` does not fit `input` as loadSamples demands it.
void checkSample(const Array &array, const GraphInput &input, const Fitting *fitting = nullptr);

/// Throws Error(BadInput) naming the first row whose label is neither in [0, classes) nor
/// `ignoreIndex`.
void checkLabels(const Array &labels, int64_t classes, int64_t ignoreIndex);

/// Throws Error(BadInput) naming the first row that holds a number below 0 or none.
void checkProbabilities(const Array &targets);

/// Where `graph` keeps samples on the device: throws Error(BadInput) naming `path` when there are more than it has room for.
void requireRoom(const GraphProgram &graph, const Samples &samples, const std::string &path);

/// 0, 1, ..., count - 1.
std::vector<int64_t> allRows(int64_t count);

/// The samples that are trained on and those held out, both ascending.
struct Rows {
  std::vector<int64_t> train, validation;
};

/// Holds out `fraction` of `count` samples, rounded down; which ones is a function of the seed.
Rows splitRows(int64_t count, double fraction, uint64_t seed);

/// What a feeder does with NaN and infinities in the data.
enum class NonFinite : uint8_t { Refused, Allowed };

/// The rows of an array as an input takes them.
class RowReader {
public:
  /// All outlive the reader. Throws as checkSample. With `fitting`, rows of other sizes are cut or padded.
  RowReader(const Array &array, const GraphInput &input, NonFinite nonFinite,
            const Fitting *fitting);

  /// Where the array has become one of another shape: allocates for it, and throws as the constructor. Nothing else does.
  void follow();

  /// The elements of sample `row` in the input's type, in the array or in this reader, until the next call. Throws Error(BadInput)
  /// naming array and row when a value does not fit the type, or is NaN or infinite and that is refused; also where targets would be
  /// padded of which every element counts. Allocates nothing.
  const char *row(int64_t row);

  /// Whether rows are as the input takes them but for their type: none is cut or padded.
  bool isPlain() const { return runs.empty(); }

  /// Of rows that are plain, brings elements [first, first + count) of `row` to those from number `to` on of an upload; with
  /// `isFinite` nobody looks for NaN. False where row() would throw, to be asked for the error. Several threads may call.
  bool bring(int64_t row, int64_t first, int64_t count, bool isFinite, TensorUpload &upload,
             int64_t to) const;

  /// A row in which nothing counts, of labels that may be so; any other row is as it is.
  const char *filling(int64_t row);

  int64_t elements() const; ///< of a row of the input

private:
  struct Run {
    Bytes from, to, bytes;
  };
  void fit();

  const Array &array;
  const GraphInput &input;
  NonFinite nonFinite;
  const Fitting *fitting;
  Shape followed;              ///< of the array
  std::vector<char> converted; ///< elements of a row, converted or realigned
  std::vector<char> fitted;    ///< of the input's size; empty where the array has it
  std::vector<char> ignored;   ///< a row of labels that do not count; empty: there are none
  std::vector<Run> runs;       ///< from `converted` to `fitted`
  bool padsTargets = false;    ///< with numbers that the loss would count
};

/// Copies rows into the inputs of one graph.
class Feeder {
public:
  /// Every sample input of `graph` must have an array in `samples`; both outlive the feeder.
  Feeder(const GraphProgram &graph, const Samples &samples,
         NonFinite nonFinite = NonFinite::Refused, const Fitting *fitting = nullptr);

  /// Brings the samples `rows`, as many as a batch has, or fewer where the fitting fills it up, into every sample input, converted and laid
  /// out in the device's staging memory. Allocates nothing. Throws Error(BadInput) naming array and
  /// row when a value does not fit the input's type, or is NaN or infinite and that is refused; the
  /// content of the inputs is undefined then.
  void write(Executor &executor, std::span<const int64_t> rows);

  /// Brings all samples to inputs that keep them, where there are some: write() then brings the numbers of a batch's there. Throws
  /// as that does.
  void keep(Executor &executor);

private:
  struct Channel {
    const GraphInput *input;
    RowReader reader;
    bool isWhole;
    std::vector<bool> isFinite; ///< rows that were looked at; empty: each is, whenever it is read
  };

  void bring(Channel &channel, Executor &executor, const Operand &place,
             std::span<const int64_t> rows);

  std::vector<Channel> channels;
  const GraphInput *numbers = nullptr; ///< of the samples; null where none are kept
  int64_t sampleCount;
  bool fillsRows;
};

} // namespace stow
