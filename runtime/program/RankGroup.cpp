#include "runtime/program/RankGroup.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Version.h"
#include "runtime/format/Seal.h"
#include "runtime/program/Checkpoint.h"
#include "runtime/program/Evaluator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

namespace stow {

namespace {

/// How long a rank that has failed leaves rank 0 to say the same.
constexpr std::chrono::seconds kPatience(2);

/// How long a launcher takes to read what a process said last.
constexpr std::chrono::milliseconds kReading(200);

/// Where rank 0 is the one that is lost, the others speak in turn.
constexpr int64_t kTurns = 20;

uint64_t checksumOf(std::string_view text) { return addToChecksum(0, {text.data(), text.size()}); }

uint64_t checksumOfFile(const char *path) {
  const InputFile file(path);
  constexpr size_t piece = size_t{1} << 20;
  uint64_t sum = 0;
  for (size_t first = 0; first < file.size(); first += piece)
    sum = addToChecksum(sum, file.read(first, std::min(piece, file.size() - first)));
  return sum;
}

uint64_t checksumOf(std::span<const uint64_t> numbers) {
  return addToChecksum(0, {reinterpret_cast<const char *>(numbers.data()), numbers.size_bytes()});
}

} // namespace

/// GPUs add up by themselves.
static SumsBy sumsOf(const Program &program) {
  return program.target.starts_with("host") ? SumsBy::Ranks : SumsBy::Devices;
}

RankGroup::RankGroup(const Program &program)
    : RankGroup(program,
                program.devices > 1 ? joinRanks(program.devices, sumsOf(program)) : nullptr,
                false) {}

RankGroup RankGroup::ofLaunch(const Program &program) {
  return isLaunched(sumsOf(program)) ? RankGroup(program) : RankGroup(program, nullptr, false);
}

RankGroup RankGroup::ofProcess(const Program &program) {
  return {program, program.devices > 1 ? ranksOfProcess(program.devices, sumsOf(program)) : nullptr,
          true};
}

RankGroup::RankGroup(const Program &program, std::shared_ptr<Ranks> ranks, bool allThrow)
    : batch(program.batch), ranks(std::move(ranks)), allThrow(allThrow) {}

void RankGroup::requireSame(uint64_t own, const std::string &what, const std::string &nextStep) {
  if (!ranks)
    return;
  const std::vector<uint64_t> all = ranks->gather(own);
  const auto other = std::ranges::find_if(all, [&](uint64_t its) { return its != all.front(); });
  if (other == all.end())
    return;
  if (rank() != 0 && !allThrow)
    ranks->gather(0); // which rank 0 does not join: it says what is wrong and ends all
  throw Error::badInput(
      concat("rank ", other - all.begin(), " has another ", what, " than rank 0; ", nextStep));
}

int RankGroup::agreeOn(int signal) {
  if (!ranks)
    return signal;
  for (uint64_t its : ranks->gather(static_cast<uint64_t>(signal)))
    if (its != 0)
      return static_cast<int>(its);
  return 0;
}

void RankGroup::share(Executor &executor,
                      const std::function<bool(const StateTensor &)> &isShared) {
  if (!ranks)
    return;
  std::vector<char> bytes;
  for (const StateTensor &state : executor.program().state) {
    if (!isShared(state))
      continue;
    bytes.resize(static_cast<size_t>(elementCount(state.place.shape) * sizeOf(state.place.dtype)));
    executor.readTensor(state.place, bytes.data());
    ranks->broadcast(bytes);
    executor.writeTensor(state.place, bytes.data());
  }
}

void RankGroup::shareStatistics(Executor &executor) {
  share(executor, [](const StateTensor &state) {
    return state.kind == BufferKind::Statistic && state.saved;
  });
}

void RankGroup::shareState(Executor &executor) {
  share(executor, [](const StateTensor &state) { return !state.shardOf; });
}

void RankGroup::gather(std::span<const double> own, std::span<double> all) {
  if (!ranks || own.empty())
    return std::ranges::copy(own, all.begin()), void();
  // Bytes, of which a double is two floats' worth.
  constexpr auto words = static_cast<int64_t>(sizeof(double) / sizeof(float));
  ranks->gather(reinterpret_cast<const float *>(own.data()), words * std::ssize(own),
                reinterpret_cast<float *>(all.data()));
}

void RankGroup::save(const std::function<void()> &write) {
  std::exception_ptr problem;
  if (speaks()) {
    try {
      write();
    } catch (const RankLost &) {
      throw; // the others cannot be told
    } catch (...) {
      problem = std::current_exception();
    }
  } else {
    serveSave();
  }
  const bool failed = ranks && ranks->gather(problem ? 1 : 0).front() != 0;
  if (problem)
    std::rethrow_exception(problem);
  if (failed)
    throw Error::badInput("rank 0 has not saved; its error says why");
}

void RankGroup::setTimeout(std::optional<int64_t> seconds) {
  if (!seconds)
    return;
  if (!ranks)
    throw Error::badInput(
        "--timeout is how long one of several devices waits for another, and this "
        "process is alone; leave it out");
  watched.patience = std::chrono::seconds(*seconds);
  ranks->setWatch(watched);
}

void RankGroup::watch(std::function<bool()> isAskedToEnd,
                      std::function<void(const std::string &)> tell) {
  watched.isAskedToEnd = std::move(isAskedToEnd);
  watched.tell = std::move(tell);
  if (ranks)
    ranks->setWatch(watched);
}

void RankGroup::compareProgram(const Program &program) {
  if (!ranks)
    return;
  requireSame(checksumOf(toJson(program)), "program",
              "start one file on all ranks, or copies of it");
  requireSame(checksumOf(std::string_view(version())), "version of Stowage",
              concat("rank 0 has ", version(), ": start one file on all ranks, or copies of it"));
  // A library's process is whatever has loaded it.
  if (!allThrow)
    requireSame(checksumOfFile("/proc/self/exe"), "executable",
                "both hold the same program: start one file on all ranks, or copies of it, so that "
                "kernels and libraries are the same");
  const std::string library = ranks->library();
  requireSame(checksumOf(std::string_view(library)), "MPI library",
              concat("rank 0 has ", library.substr(0, library.find_first_of(",\n")),
                     ": start all ranks by one launcher, with one MPI library on all machines"));
}

void RankGroup::compareRun(const RunState &run, size_t testRows, bool allowsNonFinite,
                           int64_t stepsToSave) {
  const LearningRate &rate = run.rate;
  const std::array samples = {static_cast<uint64_t>(run.rows), static_cast<uint64_t>(testRows)};
  requireSame(checksumOf(samples), "number of samples in --data",
              "give all ranks the same file, or copies of it");
  std::vector<uint64_t> settings = {run.seed, run.shuffle, static_cast<uint64_t>(rate.kind),
                                    allowsNonFinite};
  for (int64_t number :
       {run.step, rate.totalSteps, rate.warmupSteps, rate.decayEpochs, stepsToSave})
    settings.push_back(static_cast<uint64_t>(number));
  for (double number : {rate.base, rate.decay, run.validationSplit})
    settings.push_back(std::bit_cast<uint64_t>(number));
  requireSame(checksumOf(settings), "flag of the run, or another file to --resume",
              "start all ranks with the same command");
}

void RankGroup::compareSettings(std::span<const uint64_t> settings) {
  requireSame(checksumOf(settings), "seed, number of steps done or learning rate",
              "make the same calls on all ranks");
}

void RankGroup::compareState(Executor &executor) {
  if (!ranks)
    return;
  uint64_t sum = 0;
  std::vector<char> bytes;
  for (const StateTensor &tensor : executor.program().state) {
    if (tensor.shardOf)
      continue; // each has its own
    bytes.resize(
        static_cast<size_t>(elementCount(tensor.place.shape) * sizeOf(tensor.place.dtype)));
    executor.readTensor(tensor.place, bytes.data());
    sum = addToChecksum(sum, bytes);
  }
  requireSame(sum, "first value of a weight or of its optimizer's state",
              "give all ranks the same file to --resume, --init-from or --trained");
}

Metrics RankGroup::evaluate(Evaluator &evaluator, std::span<const int64_t> rows) {
  shareStatistics(evaluator.executorOf());
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t batches = (count + batch - 1) / batch;
  const auto beginOf = [&](int64_t rank) {
    return std::min(batches * rank / size() * batch, count);
  };
  const int64_t begin = beginOf(rank()), end = beginOf(rank() + 1);
  const Metrics own = evaluator.run(rows.subspan(begin, end - begin));
  if (evaluatesTogether(evaluator.executorOf().program()) && !rows.empty()) {
    int64_t most = 0;
    for (int64_t rank = 0; rank < size(); ++rank)
      most = std::max(most, evaluator.runsOf(beginOf(rank + 1) - beginOf(rank)));
    evaluator.runAlong(rows.front(), most - evaluator.runsOf(end - begin));
  }
  return total(own);
}

Metrics RankGroup::total(const Metrics &own) {
  if (!ranks)
    return own;
  auto countOf = [&](int64_t number) {
    int64_t sum = 0;
    for (uint64_t its : ranks->gather(static_cast<uint64_t>(number)))
      sum += static_cast<int64_t>(its);
    return sum;
  };
  auto sumOf = [&](double number) {
    double sum = 0;
    for (uint64_t its : ranks->gather(std::bit_cast<uint64_t>(number)))
      sum += std::bit_cast<double>(its);
    return sum;
  };
  Metrics all;
  all.rows = countOf(own.rows);
  all.targets = countOf(own.targets);
  all.correct = countOf(own.correct);
  all.lossSum = sumOf(own.lossSum);
  all.weightSum = sumOf(own.weightSum);
  all.hasAccuracy = countOf(own.hasAccuracy ? 1 : 0) > 0; // a rank without rows does not know
  return all;
}

ShardedState *RankGroup::shardsOf(Executor &executor) {
  return ranks ? &shards.emplace(executor, *ranks) : nullptr;
}

void RankGroup::serveSave() {
  if (shards && !speaks())
    shards->serve();
}

bool RankGroup::hearsOfSave(bool isSaved) {
  return ranks ? ranks->gather(isSaved ? 1 : 0).front() != 0 : isSaved;
}

void RankGroup::abort(const Error &error) {
  // What all ranks have found rank 0 says, and ends the others while they wait.
  if (!speaks())
    std::this_thread::sleep_for(kPatience + std::min<int64_t>(rank(), kTurns) * kReading);
  std::fprintf(stderr, "error: %s%s\n", speaks() ? "" : concat("rank ", rank(), ": ").c_str(),
               error.what());
  std::fflush(nullptr);
  std::this_thread::sleep_for(
      kReading); // launchers drop what they have not read of a process that aborts
  ranks->abort(error.exitCode());
}

} // namespace stow
