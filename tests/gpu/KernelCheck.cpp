// Generated kernels on the GPU of this machine: every case of a folder (KernelCase.h) run twice, its
// results held to the recorded ones, the second run to the first bit for bit, and the bytes around
// every operand to what they were.
//
//   kernel-check FOLDER [--from=N] [--count=N]      exit code 1 where a case fails
//
// Cases run in a process of their own, since an error of a kernel ends its context: behind one that does, a new
// process goes on with the next case.
//
// Floating-point results may differ by what hardware rounds differently in approximate functions and in
// sums of products; everything else is equal.
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/Driver.h"
#include "tests/gpu/KernelCase.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include <sys/wait.h>
#include <unistd.h>

using namespace stow;

namespace {

constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xA5;

/// What an element may differ by: relative to itself, and to the largest of its tensor.
struct Tolerance {
  double relative = 0, ofLargest = 0;
};

Tolerance toleranceOf(const std::string &type) {
  if (type == "f32")
    return {5e-5, 1e-5};
  if (type == "f64")
    return {1e-12, 1e-13};
  if (type == "bf16")
    return {1.0 / 64, 1.0 / 256};
  if (type == "f16")
    return {1.0 / 512, 1.0 / 2048};
  return {};
}

double halfToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                : std::ldexp(mantissa, -24);
  return bits >> 15 ? -value : value;
}

template <typename T> T elementAt(const std::vector<char> &bytes, size_t number) {
  T value;
  std::memcpy(&value, bytes.data() + number * sizeof(T), sizeof(T));
  return value;
}

/// The tensor's elements; of types that are compared byte for byte, none.
std::vector<double> valuesOf(const std::vector<char> &bytes, const std::string &type) {
  std::vector<double> values;
  const size_t size = type == "f64" ? 8 : type == "f32" ? 4 : 2;
  for (size_t i = 0; toleranceOf(type).relative > 0 && i < bytes.size() / size; ++i)
    values.push_back(type == "f64"   ? elementAt<double>(bytes, i)
                     : type == "f32" ? double{elementAt<float>(bytes, i)}
                     : type == "f16" ? halfToDouble(elementAt<uint16_t>(bytes, i))
                                     : double{std::bit_cast<float>(
                                           uint32_t{elementAt<uint16_t>(bytes, i)} << 16)});
  return values;
}

/// How far `found` is from `expected`, as a share of what is allowed; above 1 it is wrong.
double distance(const std::vector<char> &found, const std::vector<char> &expected,
                const std::string &type) {
  if (toleranceOf(type).relative == 0)
    return found == expected ? 0 : std::numeric_limits<double>::infinity();
  const std::vector<double> a = valuesOf(found, type), b = valuesOf(expected, type);
  double largest = 0, worst = 0;
  for (double value : b)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    const double allowed =
        toleranceOf(type).relative * std::abs(b[i]) + toleranceOf(type).ofLargest * largest;
    const double ratio = std::abs(a[i] - b[i]) / allowed;
    worst = std::max(worst, std::isfinite(ratio) ? ratio : std::numeric_limits<double>::infinity());
  }
  return worst;
}

class Gpu {
public:
  Gpu() : driver(cuda::openDriver()) {
    int device = 0;
    driver.require(driver.deviceGet(&device, 0), "choosing the GPU");
    driver.require(driver.primaryCtxRetain(&context, device), "opening the GPU");
    driver.require(driver.ctxSetCurrent(context), "opening the GPU");
    driver.require(driver.streamCreate(&stream, cuda::kStreamNonBlocking), "making a stream");
    char name[128] = {};
    driver.require(driver.deviceGetName(name, sizeof name, device), "asking for its name");
    std::printf("# %s\n", name);
  }

  /// The places of `kernelCase` behind one run of it.
  std::vector<std::vector<char>> run(const KernelCase &kernelCase,
                                     const std::filesystem::path &folder) {
    cuda::Function function = nullptr;
    driver.require(driver.moduleGetFunction(&function, module(folder / kernelCase.module),
                                            kernelCase.kernel.c_str()),
                   "finding kernel '" + kernelCase.kernel + "'");
    std::vector<cuda::Address> places;
    for (const KernelCase::Place &place : kernelCase.places)
      places.push_back(put(place.before));
    std::vector<uint64_t> values = {static_cast<uint64_t>(kernelCase.begin),
                                    static_cast<uint64_t>(kernelCase.end)};
    for (size_t place : kernelCase.arguments)
      values.push_back(places.at(place) + kGuardBytes);
    std::vector<void *> parameters;
    for (uint64_t &value : values)
      parameters.push_back(&value);
    if (kernelCase.sharedBytes > 0)
      driver.require(driver.funcSetAttribute(function, cuda::kMaxDynamicShared,
                                             static_cast<int>(kernelCase.sharedBytes)),
                     "asking for the shared memory of '" + kernelCase.kernel + "'");
    driver.require(driver.launchKernel(function, kernelCase.blocks, 1, 1, kernelCase.threads, 1, 1,
                                       kernelCase.sharedBytes, stream, parameters.data(), nullptr),
                   "launching '" + kernelCase.kernel + "'");
    driver.require(driver.streamSynchronize(stream), "running '" + kernelCase.kernel + "'");
    std::vector<std::vector<char>> found;
    for (size_t i = 0; i < places.size(); ++i)
      found.push_back(take(places[i], kernelCase.places[i].before.size(), kernelCase.kernel));
    return found;
  }

  /// False behind an error that ends the context.
  bool isUsable() const { return driver.streamSynchronize(stream) == 0; }

private:
  cuda::Module module(const std::filesystem::path &file) {
    cuda::Module &loaded = modules[file.string()];
    if (!loaded) {
      std::ifstream in(file, std::ios::binary);
      const std::string ptx{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      driver.require(driver.moduleLoadData(&loaded, ptx.c_str()), "loading " + file.string());
    }
    return loaded;
  }

  cuda::Address put(const std::vector<char> &bytes) {
    std::vector<char> guarded(bytes.size() + 2 * kGuardBytes, static_cast<char>(kGuard));
    std::ranges::copy(bytes, guarded.begin() + kGuardBytes);
    cuda::Address address = 0;
    driver.require(driver.memAlloc(&address, guarded.size()), "taking memory");
    driver.require(driver.memcpyHtoDAsync(address, guarded.data(), guarded.size(), stream),
                   "a copy");
    driver.require(driver.streamSynchronize(stream), "a copy");
    return address;
  }

  std::vector<char> take(cuda::Address address, size_t bytes, const std::string &kernel) {
    std::vector<char> guarded(bytes + 2 * kGuardBytes);
    driver.require(driver.memcpyDtoHAsync(guarded.data(), address, guarded.size(), stream),
                   "a copy");
    driver.require(driver.streamSynchronize(stream), "a copy");
    driver.require(driver.memFree(address), "giving memory back");
    for (size_t i = 0; i < guarded.size(); ++i)
      if ((i < kGuardBytes || i >= kGuardBytes + bytes) &&
          static_cast<unsigned char>(guarded[i]) != kGuard)
        throw Error::internal(concat("kernel '", kernel, "' writes byte ",
                                     static_cast<int64_t>(i - kGuardBytes), " of an operand of ",
                                     bytes, " bytes"));
    return {guarded.begin() + kGuardBytes, guarded.end() - kGuardBytes};
  }

  const cuda::Driver &driver;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  std::map<std::string, cuda::Module> modules;
};

/// What is wrong with the case; empty: nothing. `worst` is the largest distance.
std::string problemOf(Gpu &gpu, const KernelCase &kernelCase, const std::filesystem::path &folder,
                      double &worst) {
  const auto first = gpu.run(kernelCase, folder), second = gpu.run(kernelCase, folder);
  if (first != second)
    return "two runs differ";
  for (size_t i = 0; i < first.size(); ++i) {
    const KernelCase::Place &place = kernelCase.places[i];
    if (place.after.empty() && !place.before.empty() && first[i] != place.before)
      return concat("writes its operand ", i);
    if (!place.after.empty())
      worst = std::max(worst, distance(first[i], place.after, place.type));
  }
  return worst > 1 ? concat("differs by ", std::to_string(worst), " times what is allowed") : "";
}

/// Of one case, as a child tells its parent.
struct Outcome {
  size_t number = 0;
  bool failed = false;
  double worst = 0;
};

std::vector<std::filesystem::path> casesOf(const std::filesystem::path &folder) {
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".case")
      files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty())
    throw Error::badInput("no case in " + folder.string());
  return files;
}

/// Runs `files` from number `from` up to `end` and writes an Outcome of each to `out`, until one ends the context.
void runCases(const std::vector<std::filesystem::path> &files, size_t from, size_t end, int out) {
  Gpu gpu;
  bool isUsable = true;
  for (size_t i = from; i < end && isUsable; ++i) {
    Outcome outcome = {.number = i};
    std::string problem, kernel;
    try {
      const KernelCase kernelCase = readCase(files[i]);
      kernel = kernelCase.kernel;
      problem = problemOf(gpu, kernelCase, files[i].parent_path(), outcome.worst);
    } catch (const std::exception &error) {
      problem = error.what();
      isUsable = gpu.isUsable();
    }
    outcome.failed = !problem.empty();
    if (outcome.failed)
      std::printf("FAILED %s %s: %s\n", files[i].filename().c_str(), kernel.c_str(),
                  problem.c_str());
    if (write(out, &outcome, sizeof outcome) != sizeof outcome)
      return;
  }
}

/// In a process of its own, which may end in the middle; what it told until then.
std::vector<Outcome> runApart(const std::vector<std::filesystem::path> &files, size_t from,
                              size_t end) {
  int ends[2];
  std::fflush(stdout);
  if (pipe(ends) != 0)
    throw Error::internal("no pipe");
  const pid_t child = fork();
  if (child < 0)
    throw Error::internal("no process");
  if (child == 0) {
    int code = 0;
    try {
      runCases(files, from, end, ends[1]);
    } catch (const std::exception &error) {
      std::printf("error: %s\n", error.what());
      code = 1;
    }
    std::fflush(stdout);
    _exit(code);
  }
  close(ends[1]);
  std::vector<Outcome> outcomes;
  for (Outcome outcome; read(ends[0], &outcome, sizeof outcome) == sizeof outcome;)
    outcomes.push_back(outcome);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw Error::badInput("the GPU could not be used");
  return outcomes;
}

int check(const std::filesystem::path &folder, size_t from, size_t count) {
  const std::vector<std::filesystem::path> files = casesOf(folder);
  const size_t end = std::min(files.size(), from + count);
  size_t failures = 0, next = from;
  double worst = 0;
  while (next < end) {
    const std::vector<Outcome> outcomes = runApart(files, next, end);
    for (const Outcome &outcome : outcomes) {
      failures += outcome.failed;
      worst = std::max(worst, outcome.worst);
      next = outcome.number + 1;
    }
    if (next < end && (outcomes.empty() || !outcomes.back().failed)) {
      std::printf("FAILED %s: its process ended\n", files[next].filename().c_str());
      ++failures, ++next;
    }
  }
  std::printf("%zu of %zu cases, %zu failed, the largest difference %.3f of what is allowed\n",
              end - std::min(from, end), files.size(), failures, worst);
  return failures > 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string folder;
  size_t from = 0, count = std::numeric_limits<size_t>::max() / 2;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--from="))
      from = std::stoul(word.substr(7));
    else if (word.starts_with("--count="))
      count = std::stoul(word.substr(8));
    else
      folder = word;
  }
  try {
    return check(folder, from, count);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
