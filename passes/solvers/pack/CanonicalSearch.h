// Exact search for a packing within a capacity.
//
// In a packing whose items are all pushed down as far as they go, every item lies at the aligned
// top of one below it, or at the bottom (the canonical form). So it is enough to build packings
// upward: an item may be put exactly onto what is already under it.
//
//   bytes                                 ef of a section: the lowest byte at which any item that
//     ^  +------+                         is still to come can start there. Here item c may be put
//     |  |  b   +---+                     into the valley between a and b, or be *deferred*: then
//     +--+---+  | a |   <- placed         it has to wait for a neighbour that will lift it, and the
//     |  | c?| ... rest                   ef of its sections rises at once.
//     +----------------> sections
//
// A node picks an item that nothing can still come under (a local minimum of ef) and branches: put
// it there, or defer it. Both branches together are complete, and no packing is met twice. Rules
// that prune, each of them switchable so that tests can show that it prunes and stays sound:
//   floor      ef + (bytes still to come) must not exceed the capacity, in every section;
//   support    a deferred item starts no lower than the top of its lowest remaining neighbour, and
//              fails without one;
//   deadline   a neighbour has to start below the top of a deferred item, or the item could drop;
//   twins      of identical items the first goes first, and of items with equal lifetimes that lie
//              directly on each other the lower index lies below;
//   decompose  section borders that no remaining item crosses split the rest into independent
//              parts, so that a failure in one does not revisit another;
//   backjump   a failure is explained by the decisions it rests on (Explanations.h); the other
//              branch of a decision that it does not rest on would fail alike and is left out;
//   merge      within exactly the load, items that can only lie in one place after another are one
//              (Merge.h).
// The next item comes from the section with the fewest items that can be its lowest, where those
// that failed often come first (SearchPick::Tightest), or is the one with the lowest base
// (SearchPick::Lowest), which costs less per node.
//
// The canonical form with capacities and section floors is due to MiniMalloc (Moffitt, ASPLOS
// 2024); branching on the tightest valley, deferral with its two rules, twins and explained
// failures are ours. Weights by failures are those of constraint solvers (dom/wdeg, Boussemart et
// al., 2004).
#pragma once

#include "passes/solvers/pack/Model.h"

#include <array>
#include <functional>
#include <limits>
#include <memory>

namespace stow::pack {

/// What the static order of equally urgent items compares; larger values go first.
enum class SearchKey : uint8_t {
  Area,     ///< size x sections
  Width,    ///< lifetime
  Peak,     ///< largest load of its sections
  Sections, ///< sections spanned
  Overlaps, ///< other items that share a section
  Size,
  Early, ///< begin, earliest first
  Late,  ///< end, latest first
};

/// Keys in falling importance; ties go to the larger area, then to the lower index.
using SearchOrder = std::array<SearchKey, 3>;

/// How the next item is picked.
enum class SearchPick {
  Tightest, ///< from the section with the fewest possible lowest items
  Lowest    ///< the lowest possible base, then the order
};

struct SearchData;

struct SearchRules {
  bool floor = true;
  bool support = true;
  bool deadline = true;
  bool twins = true;
  bool decompose = true;
  bool backjump = true;
  bool merge = true;
};

struct SearchOptions {
  SearchOrder order = {SearchKey::Peak, SearchKey::Area, SearchKey::Width};
  SearchPick pick = SearchPick::Tightest;
  uint64_t seed = 0;
  double noise = 0; ///< keys of the order are scaled by 2^(noise * U(-1, 1))
  int64_t workLimit = 1'000'000'000;
  int64_t nodeLimit = std::numeric_limits<int64_t>::max();
  SearchRules rules;
  /// By section, how often it failed in earlier searches of the instance; read and added to.
  std::vector<double> *failures = nullptr;
};

enum class SearchOutcome {
  Found,
  Exhausted, ///< no packing within the capacity
  Stopped    ///< out of work, or told to stop
};

struct SearchResult {
  SearchOutcome outcome = SearchOutcome::Stopped;
  std::vector<Bytes> bases; ///< by item of the instance, when found
  int64_t work = 0;         ///< elementary steps
  int64_t nodes = 0;
};

/// The items of a model, prepared for searching. Takes O(n log n + sections) to build unless items
/// are long or fixed above free bytes, and at most some 200 MB.
class SearchInstance {
public:
  /// `items` are indices into model.items; all of them by default. Nothing starts below `ground`.
  explicit SearchInstance(const Model &model);
  SearchInstance(const Model &model, const std::vector<int32_t> &items, Bytes ground = 0);
  ~SearchInstance();
  SearchInstance(SearchInstance &&) noexcept;

  /// False when the search covers only part of the packings (items with bytes above free space, or
  /// thousands of fixed items in mid-air): then Exhausted proves nothing.
  bool isComplete() const;

  /// The number of items to place: those without a fixed base, and fixed ones in mid-air.
  int32_t freeItems() const;

  /// Searches for a packing of at most `capacity` bytes. `stop` is polled about every 10^5 steps.
  SearchResult search(Bytes capacity, const SearchOptions &options,
                      const std::function<bool()> &stop) const;

private:
  struct Full; ///< what is searched for packings of exactly the load
  std::unique_ptr<const SearchData> data;
  std::unique_ptr<const Full> full; ///< null where nothing merges

  const SearchData &dataFor(Bytes capacity, bool merge) const;
  SearchResult expand(SearchResult result, const SearchData &of) const;
};

} // namespace stow::pack
