// The least cost of a moment (MomentCut), by branch and bound over what has run and what runs
// again.
#pragma once

#include "passes/solvers/schedule/MomentCut.h"
#include "passes/solvers/schedule/Precedence.h"

namespace stow::schedule {

/// Multipliers at which a relaxation is solved: scaled cost per byte and per unit of weight.
struct Multipliers {
  double price = 0, pull = 0;
};

class MomentTree {
public:
  MomentTree(const Core &core, const Precedence &precedence, MomentQuestion question,
             std::vector<Cost> costs);

  /// Splits leaves by what has run until `share` is spent or nothing is left to decide. Returns
  /// the least bytes over the room, of all leaves, if nothing runs again.
  double weighAll(int64_t share, int64_t &allowance);

  /// Splits leaves until the least value is `target` or more, or `allowance` (MomentCut::work) is
  /// spent. Returns the least value of all leaves: a lower bound on the scaled cost of the moment.
  int64_t grow(int64_t target, int64_t &allowance);

  /// What reruns contribute to the value of the tree: with these costs alone it is the same.
  std::vector<Cost> charges() const;

  /// Starts again with other costs; what was split stays split.
  void setCosts(std::vector<Cost> newCosts);

  /// The least bytes over the room of any real set met that runs nothing again.
  double leastBytes() const { return least; }

  size_t leafCount() const { return leaves.size(); }

  struct Leaf {
    int64_t value = 0;
    double bytes = -1e300; ///< where nothing runs again; decides while the value is 0
    std::vector<Fate> fates;
    Multipliers at;  ///< of the best certificate
    double pull = 0; ///< per byte, of the best `bytes`
    int32_t branch = -1;
    bool isRerunBranch = false;
    bool isPriced = false;   ///< `at` is a good place to start from
    bool isPolished = false; ///< since it was split off
  };

private:
  double bytesOf(const MomentCut::Answer &answer) const;
  void settle(Leaf &leaf, bool &isDead) const;
  std::vector<Leaf> split(const Leaf &leaf) const;
  void weigh(Leaf &leaf, int64_t &allowance);
  void touch(Leaf &leaf, int64_t &allowance) const;
  void price(Leaf &leaf, int rounds, int64_t &allowance);
  void choose(Leaf &leaf, const std::vector<std::vector<Fate>> &answers, bool mayRerun) const;

  const Core &core;
  const Precedence &precedence;
  const MomentQuestion question;
  std::vector<Cost> costs;
  double totalBytes = 0, costPerByte = 0, usualPrice = 0, bytesPerWeight = 0;
  int64_t totalWeight = 0, largestWeight = 0;
  Bytes largestBytes = 1;
  double least = 1e300; ///< see leastBytes
  bool isWeighed = false, isAnyPriced = false;
  std::vector<Leaf> leaves; ///< a heap, least first
};

} // namespace stow::schedule
