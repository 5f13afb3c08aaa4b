// The state of one search over orders; see OrderSearch.h for the method.
//
// OrderBounds.cpp draws conclusions, OrderExplain.cpp says what they rest on, and OrderSearch.cpp
// picks, learns and restarts.
#pragma once

#include "passes/solvers/pack/OrderSearch.h"
#include "passes/solvers/pack/SearchInstance.h"

namespace stow::pack {

/// Literal 2v says that the lower-numbered item of pair v lies below the other, 2v + 1 the reverse.
using Literal = int32_t;

class OrderSearch {
public:
  OrderSearch(const SearchData &data, Bytes capacity, const OrderOptions &options,
              const std::function<bool()> &stop);
  SearchResult run();

private:
  /// Why a conclusion holds. What it rests on is looked up when it is asked for.
  struct Reason {
    enum class Kind : int8_t {
      Decision,
      Clause,  ///< `first`: the clause
      TooHigh, ///< in the other order the two items would leave the capacity
      Chain,   ///< bound of an item: that of item `first` and its size
      Load,    ///< bound of an item: what lies between it and the edge in section `first`
      Edge     ///< section `first` and item `second`: see edgeReason
    };
    Kind kind = Kind::Decision;
    int8_t side = 0;
    int32_t first = -1, second = -1;
    Bytes near = 0, far = 0; ///< of Edge
  };
  /// A literal that became true (node < 0), or a bound that rose.
  struct Entry {
    int32_t node, literal;
    Bytes value;      ///< of the bound
    int32_t previous; ///< entry of the same bound, or -1
    int32_t level;
    Reason reason;
  };
  struct Clause {
    std::vector<Literal> literals; ///< the first two are watched
    int32_t distinctLevels;
  };

  // Bounds: node 2i is the bytes below item i, node 2i + 1 those above it.
  static int32_t nodeOf(int32_t item, int side) { return 2 * item + side; }
  int32_t level() const { return static_cast<int32_t>(levelStart.size()); }
  bool isTrue(Literal literal) const { return value[literal] > 0; }
  bool isKnown(Literal literal) const { return value[literal] != 0; }
  int32_t pairOf(int32_t a, int32_t b) const {
    return pairs[static_cast<size_t>(a) * static_cast<size_t>(data.count) + static_cast<size_t>(b)];
  }
  /// The literal "a lies below b"; both are live together.
  Literal below(int32_t a, int32_t b) const { return 2 * pairOf(a, b) + (a < b ? 0 : 1); }
  int32_t lowerOf(Literal literal) const {
    return literal & 1 ? ends[literal >> 1].second : ends[literal >> 1].first;
  }
  /// Side 0: a lies below b; side 1: above.
  Literal nearer(int side, int32_t a, int32_t b) const { return side ? below(b, a) : below(a, b); }

  // OrderSearch.cpp
  void numberPairs();
  bool resolve();
  void shorten();
  void learn();
  void backTo(int32_t target);
  void shiftLoads(Literal literal, int sign);
  void bump(int32_t variable);
  void siftUp(int32_t position);
  void siftDown(int32_t position);
  int32_t takeMostActive();
  void putBack(int32_t variable);
  void forgetClauses();

  // OrderBounds.cpp
  void push(const Entry &entry) {
    trail.push_back(entry);
    if (marked.size() < trail.size()) {
      marked.push_back(0);
      required.push_back(0);
    }
  }
  bool propagate();
  bool propagateClauses(Literal literal);
  bool propagateOrder(Literal literal);
  bool propagateBound(int32_t node);
  bool propagateSection(int32_t section, int side);
  /// The items known to lie on side `side` of `item`, as a bit set.
  uint64_t *lies(int side, int32_t item) {
    return &liesOn[static_cast<size_t>(nodeOf(item, side)) * static_cast<size_t>(words)];
  }
  void flipLies(Literal literal);
  bool assign(Literal literal, const Reason &reason);
  bool raise(int32_t item, int side, Bytes to, const Reason &reason);

  // OrderExplain.cpp
  void rest(Literal literal);
  void restOnBound(int32_t item, int side, Bytes atLeast);
  void explain(int32_t position);
  void explainLoad(const Entry &entry, int32_t position, Bytes atLeast);
  void explainEdge(const Reason &reason, int32_t position, int32_t other);
  void explainTooHigh(Literal literal, int32_t position);
  Bytes boundAt(int32_t node, int32_t position) const;
  void conflictOf(Literal literal, const Reason &reason);

  const SearchData &data;
  const Bytes capacity;
  const OrderOptions &options;
  const std::function<bool()> &stop;

  std::vector<int32_t> pairs;                    ///< by pair of items: variable, or -1
  std::vector<std::pair<int32_t, int32_t>> ends; ///< by variable, lower number first
  std::vector<std::vector<int32_t>> neighbours;  ///< by item
  std::vector<std::vector<int32_t>> itemsOf;     ///< by section
  std::vector<Bytes> largestOf;                  ///< by section
  std::vector<std::vector<int32_t>> sorted;      ///< by 2 * section + side: by falling bound
  int32_t words = 0;                             ///< of a bit set of items
  std::vector<uint64_t> liesOn;                  ///< see lies()
  std::vector<int8_t> value, phase;              ///< by literal; by variable
  std::vector<int32_t> entryOf;                  ///< by variable, when assigned
  std::vector<Bytes> bound;                      ///< by node
  std::vector<int32_t> newest;                   ///< by node: its last entry, or -1
  std::vector<std::vector<Bytes>> loads;         ///< by node and section of the item
  std::vector<Entry> trail;
  std::vector<int32_t> levelStart;
  size_t nextEntry = 0;                 ///< of the trail, to be propagated
  std::vector<int32_t> touchedSections; ///< 2 * section + side
  std::vector<char> isTouched;
  std::vector<Clause> clauses;
  std::vector<std::vector<int32_t>> watchers; ///< by literal: clauses that watch it

  // Conflict analysis:
  std::vector<char> marked;    ///< by entry
  std::vector<Bytes> required; ///< by entry of a bound
  std::vector<int32_t> markedEntries;
  int32_t open = 0;        ///< marked entries of the present level, not yet explained
  bool infeasible = false; ///< a conflict without decisions
  std::vector<Literal> learned;

  // The next variable: a heap by activity.
  std::vector<double> activity;
  std::vector<int32_t> heap, heapPosition;
  double increment = 1;

  std::vector<uint64_t> group; ///< of propagateSection: a bit set of items
  int64_t work = 0, conflicts = 0;
};

} // namespace stow::pack
