// What tests ask of the stand-in.
#include "tests/gpu/driver/State.h"

#include "ChipFiles.inc"
#include "runtime/base/Json.h"

using namespace stow::sim;

namespace stow::sim {

ChipFigures chipFigures(const std::string &name) {
  std::string known;
  for (const auto &[file, text] : kChipFiles) {
    known += (known.empty() ? "" : ", ") + std::string(file);
    if (name != file)
      continue;
    const Json json = parseJson(text, name);
    const JsonNode device = JsonNode(json, name).at("cudnn_device");
    auto number = [&](const char *key) { return static_cast<int>(device.count(key)); };
    ChipFigures chip;
    chip.name = device.text("deviceName");
    chip.major = number("deviceVer") / 100, chip.minor = number("deviceVer") / 10 % 10;
    chip.multiprocessors = number("multiProcessorCount");
    chip.clockKHz = number("smClockRateKHz"), chip.memoryClockKHz = number("memClockRateKHz");
    chip.memory = static_cast<uint64_t>(device.count("totalGlobalMem"));
    chip.l2Bytes = number("l2CacheSize");
    chip.sharedPerBlock = number("maxSharedMemoryPerBlock");
    chip.sharedPerBlockOptin = number("maxSharedMemoryPerBlockOptin");
    chip.sharedReserved = number("reservedSharedMemoryPerBlock");
    chip.registersPerBlock = number("regsPerBlock");
    chip.threadsPerMultiprocessor = number("maxThreadsPerSM");
    chip.blocksPerMultiprocessor = number("maxCtasPerSM");
    return chip;
  }
  fprintf(stderr, "STANDIN_CHIP: \"%s\" is none of %s\n", name.c_str(), known.c_str());
  abort();
}

static std::vector<Range> rangesOf(const StandInRange *ranges, size_t count) {
  std::vector<Range> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back({ranges[i].address, ranges[i].address + ranges[i].bytes,
                   ranges[i].name ? ranges[i].name : ""});
  return all;
}

} // namespace stow::sim

#define STANDIN_API __attribute__((visibility("default")))

STANDIN_API void standinExpectAccess(const StandInRange *reads, size_t readCount,
                                     const StandInRange *writes, size_t writeCount) {
  Checks checks;
  checks.planned = true;
  checks.reads = rangesOf(reads, readCount);
  checks.writes = rangesOf(writes, writeCount);
  expectedAccess() = std::move(checks);
}

STANDIN_API void standinOnLaunch(StandInOnLaunch function, void *user) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.onLaunch = function, driver.onLaunchUser = user;
}

STANDIN_API void standinCheckRaces(int on) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.checkRaces = on;
}

STANDIN_API void standinCounters(StandInCounters *counters) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  *counters = driver.counters;
}

STANDIN_API void standinFail(const char *function, unsigned nth, int result) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.fail(function, nth, static_cast<CUresult>(result));
}

STANDIN_API const char *standinLastError(void) { return Driver::get().lastError.c_str(); }

STANDIN_API void standinSetMemory(uint64_t bytes) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.memory->setCapacity(bytes ? bytes : driver.chip.memory);
}

STANDIN_API void standinSetOrder(uint64_t seed) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.order = seed;
}

STANDIN_API void standinProvidePtx(const void *cubin, size_t bytes, const char *ptx) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  driver.ptxOfCubin[std::string(static_cast<const char *>(cubin), bytes)] = ptx;
}

STANDIN_API void *standinHostPointer(uint64_t address, uint64_t bytes) {
  Driver &driver = Driver::get();
  if (const std::string other = driver.busyWith(address, bytes); !other.empty()) {
    driver.lastError = "race: a library's call touches bytes that " + other +
                       " writes, and nothing orders the two";
    fprintf(stderr, "%s\n", driver.lastError.c_str());
    return nullptr;
  }
  return driver.memory->host(address, bytes);
}

STANDIN_API int standinLaunchPolled(void *stream, StandInPoll poll, void *user,
                                    void (*released)(void *user)) {
  return call("standinLaunchPolled", Needs::Context, [&](Driver &driver) {
    const std::shared_ptr<void> held(user, released);
    driver.submit(driver.requireStream(static_cast<CUstream>(stream)), CU_GRAPH_NODE_TYPE_KERNEL,
                  [poll, held, &driver] {
                    driver.inHostFunction = true;
                    const int isDone = poll(held.get());
                    driver.inHostFunction = false;
                    if (!isDone)
                      throw NotYet();
                    driver.now += 2e-6;
                  });
  });
}

STANDIN_API void standinStep(void) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.lock);
  for (auto &stream : driver.streams)
    if (stream->tail && !stream->tail->done)
      try {
        driver.step(stream->tail);
      } catch (const Refusal &refusal) {
        driver.refuse(refusal);
      }
}

STANDIN_API void standinPass(double seconds) { Driver::get().now += seconds; }

STANDIN_API void standinReset(void) { Driver::get().reset(); }
