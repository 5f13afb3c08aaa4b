// Batches of 128 images of 3 x 224 x 224 on their way from a data file's memory to a step's input: per type of the file and of the input,
// and number of threads, milliseconds of a batch by the clock and of all processors together.
//
//   build/release/bin/FeedBench [THREADS...]
//
// Rows are drawn from 1,024, more than any cache holds. Of a first epoch, which looks for NaN, and the fastest of the later ones.
#include "runtime/program/Samples.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

using namespace stow;

namespace {

constexpr int64_t batch = 128, batches = 8;
constexpr int epochs = 7;
const Shape image = {batch, 3, 224, 224};

double seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Numbers from 0 to 250, which all types hold.
std::vector<char> numbers(ElementType type, int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count * type.bytes));
  for (int64_t i = 0; i < count; ++i) {
    const auto whole = static_cast<uint8_t>(i % 251);
    const auto single = static_cast<float>(whole);
    const auto wide = static_cast<double>(whole);
    const void *from = type.bytes == 1   ? static_cast<const void *>(&whole)
                       : type.bytes == 4 ? static_cast<const void *>(&single)
                                         : &wide;
    std::memcpy(bytes.data() + i * type.bytes, from, static_cast<size_t>(type.bytes));
  }
  return bytes;
}

void measure(ElementType from, DType to, int64_t threads) {
  GraphProgram graph;
  graph.role = GraphRole::Train;
  graph.inputs = {{"x", InputRole::Data, {0, to, image, {}}}};
  Program program;
  program.plan.arenaBytes = elementCount(image) * sizeOf(to);
  program.threads = threads;
  program.graphs = {graph};
  Executor executor(program, {}, {});

  Shape shape = image;
  shape[0] *= batches;
  const std::vector<char> bytes = numbers(from, elementCount(shape));
  Array array;
  array.name = array.place = "x";
  array.type = from, array.shape = shape, array.bytes = bytes;
  Samples samples;
  samples.byInput.emplace("x", array);
  samples.rowCount = shape[0];
  samples.isConstant = true;
  Feeder feeder(graph, samples);

  std::vector<int64_t> order = allRows(samples.rowCount);
  for (size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[i * 7919 % (i + 1)]);
  const char *const words[] = {"first", "later"};
  std::printf("%-4s -> %-4s %2lld threads:", nameOf(from).c_str(), std::string(nameOf(to)).c_str(),
              static_cast<long long>(threads));
  double least[2] = {1e9, 1e9}, leastOfAll[2] = {1e9, 1e9};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double begin = seconds(CLOCK_MONOTONIC), ofAll = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < batches; ++i)
      feeder.write(executor, std::span(order).subspan(static_cast<size_t>(i * batch), batch));
    const int which = epoch == 0 ? 0 : 1;
    least[which] = std::min(least[which], (seconds(CLOCK_MONOTONIC) - begin) / batches);
    leastOfAll[which] =
        std::min(leastOfAll[which], (seconds(CLOCK_PROCESS_CPUTIME_ID) - ofAll) / batches);
  }
  for (int which : {0, 1})
    std::printf("  %s epoch %7.2f ms, processors %7.2f ms", words[which], 1e3 * least[which],
                1e3 * leastOfAll[which]);
  std::printf("\n");
}

} // namespace

int main(int count, char **words) {
  std::vector<int64_t> threads = {1, 2};
  if (count > 1)
    threads.clear();
  for (int i = 1; i < count; ++i)
    threads.push_back(std::atoll(words[i]));
  using Kind = ElementType::Kind;
  const ElementType bytes = {Kind::Unsigned, 1}, singles = {Kind::Float, 4},
                    doubles = {Kind::Float, 8};
  for (int64_t each : threads) {
    measure(bytes, DType::U8, each);
    measure(bytes, DType::F32, each);
    measure(singles, DType::F32, each);
    measure(singles, DType::BF16, each);
    measure(doubles, DType::F32, each);
  }
}
