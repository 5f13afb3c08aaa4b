// One process among those that run a program for several devices, or the only one.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/program/Metrics.h"
#include "runtime/program/ShardedState.h"
#include "runtime/ranks/Ranks.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace stow {

class Evaluator;
struct RunState;

class RankGroup {
public:
  /// Joins the ranks that a launcher has started, where the program is for several devices. Throws as joinRanks().
  explicit RankGroup(const Program &program);
  /// With ranks that are joined already, if any. `allThrow`: what they differ in all of them throw, not rank 0 alone.
  RankGroup(const Program &program, std::shared_ptr<Ranks> ranks, bool allThrow);
  /// The same where a launcher has started this process at all.
  static RankGroup ofLaunch(const Program &program);
  /// The ranks that this process has joined for a library (ranksOfProcess). What they differ in all of them throw.
  static RankGroup ofProcess(const Program &program);

  bool isAlone() const { return !ranks; }
  int64_t rank() const { return ranks ? ranks->rank() : 0; }
  int64_t size() const { return ranks ? ranks->size() : 1; }
  bool speaks() const { return rank() == 0; } ///< prints, logs and saves
  Ranks *engine() { return ranks.get(); }
  /// How many seconds this rank waits for others (--timeout), 0: without end; absent: RankWatch's. Throws Error(BadInput) where the process
  /// is alone and they are given.
  void setTimeout(std::optional<int64_t> seconds);
  /// As of RankWatch, from here on.
  void watch(std::function<bool()> isAskedToEnd, std::function<void(const std::string &)> tell);

  // Collective; of a process that is alone they do nothing. ------------------------------------------------

  // What is to be the same on all ranks before they train. Rank 0 throws Error(BadInput) where it is not: "rank 1 has another WHAT than
  // rank 0; NEXT STEP". The others wait for it to end them; those of a library throw the same.
  void
  compareProgram(const Program &program); ///< and by what it computes: the file, the MPI library
  // `stepsToSave` lie between two saves; 0: at the end alone; -1: never.
  void compareRun(const RunState &run, size_t testRows, bool allowsNonFinite, int64_t stepsToSave);
  void compareState(
      Executor
          &executor); ///< weights and optimizer state, which stay the same where they were at first

  /// Of a library: numbers that its calls were given.
  void compareSettings(std::span<const uint64_t> settings);
  /// Gives all ranks the state of rank 0, but for what each has a shard of.
  void shareState(Executor &executor);
  /// The same of running statistics alone.
  void shareStatistics(Executor &executor);
  /// Of a library: the numbers of all ranks, by rank, in a row.
  void gather(std::span<const double> own, std::span<double> all);
  /// Of a library: calls `write` on rank 0 while the others do their parts. Where it throws, all ranks do;
  /// those that wait for a rank that is lost throw RankLost each.
  void save(const std::function<void()> &write);

  /// The first signal that any rank has received, by rank; 0: none.
  int agreeOn(int signal);

  /// Loss and accuracy over the samples `rows`, by the running statistics of rank 0, which all take over: they are those that are
  /// saved. Each rank evaluates whole batches beside each other; the result is the same on all.
  Metrics evaluate(Evaluator &evaluator, std::span<const int64_t> rows);

  /// What a save of several ranks needs, which takes its memory now; null of a process that is alone.
  ShardedState *shardsOf(Executor &executor);
  /// What a rank does while rank 0 saves, of what it asked shardsOf() for: its part. Rank 0 does nothing.
  void serveSave();
  /// Whether rank 0 has saved, which it knows.
  bool hearsOfSave(bool isSaved);

  /// Says what went wrong in this rank and ends all of them.
  [[noreturn]] void abort(const Error &error);

private:
  void requireSame(uint64_t own, const std::string &what, const std::string &nextStep);
  void share(Executor &executor, const std::function<bool(const StateTensor &)> &isShared);
  Metrics total(const Metrics &own);

  int64_t batch = 1; ///< samples that an evaluation takes at once
  std::shared_ptr<Ranks> ranks;
  RankWatch watched;
  bool allThrow = false; ///< where ranks differ; else rank 0 alone, which ends the others
  std::optional<ShardedState> shards;
};

} // namespace stow
