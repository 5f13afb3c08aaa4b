// Masks of attention's scores: which keys a query may see, read from constants and from comparisons of positions.
//
//   key - query <= last          key - query >= first         both: a window
//   # . . . .                    # # # # #                    # . . . .
//   # # . . .                    # # # # #                    # # . . .
//   # # # . .                    . # # # #                    . # # . .
//   # # # # .                    . . # # #                    . . # # .
#pragma once

#include "passes/rewrite/AttentionDocuments.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace stow {

/// The number that a constant, repeated or not, holds everywhere.
std::optional<double> numberOf(mlir::Value value);

/// Scores of constants from here on down are those of keys that nothing attends to, if there is another.
constexpr double kExcluded = -1e4;

/// A mask of the scores. Of a boolean one `keeps` says whether it holds where a key is seen.
struct Mask {
  mlir::Value value;
  bool keeps = true;
  double excluded =
      -std::numeric_limits<double>::infinity(); ///< what a boolean mask puts in place of a score
  bool isBoolean() const { return tensorType(value).getElementType().isInteger(1); }
};

/// The keys that a query may see: those from query + first to query + last.
struct Band {
  std::optional<int64_t> first, last;

  void narrow(const Band &other) {
    if (other.first)
      first = std::max(first.value_or(*other.first), *other.first);
    if (other.last)
      last = std::min(last.value_or(*other.last), *other.last);
  }
  /// Without bounds that leave nothing out.
  Band within(int64_t rows, int64_t keys) const {
    Band result = *this;
    if (result.first && *result.first <= 1 - rows)
      result.first.reset();
    if (result.last && *result.last >= keys - 1)
      result.last.reset();
    return result;
  }
  bool isAll() const { return !first && !last; }
  /// Every query sees a key.
  bool keepsOne(int64_t rows, int64_t keys) const {
    return last.value_or(0) >= 0 && first.value_or(-rows) + rows <= keys &&
           (!first || !last || *first <= *last);
  }
};

/// Every query is known to see a key, of its own document where there are such.
bool keepsOne(const Band &band, const std::optional<Documents> &documents, int64_t rows,
              int64_t keys);

/// What a mask leaves of the scores, as far as that is known: of all or of a band those within documents, where it names them.
enum class Leaves { Unknown, All, Band };

struct MaskContent {
  Leaves leaves = Leaves::Unknown;
  Band band;
  std::optional<Documents> documents;
  bool keepsOne = false;   ///< every query sees a key
  bool isInfinite = false; ///< what it does not leave is minus infinity
};

/// Reads masks of scores [..., rows, keys]. The layers of a model often share one, or have equal ones: what a constant holds is
/// looked at once.
class MaskReader {
public:
  /// What a mask holds: itself, or, of one whose exclusions are minus infinity, the band of positions, with documents, and the rest, which
  /// all have to hold.
  llvm::SmallVector<std::pair<Mask, MaskContent>> read(const Mask &mask, int64_t rows,
                                                       int64_t keys);

private:
  /// Elements, what a boolean's mean, the bits of what they put in place of a score, rows, keys.
  using Constant = std::tuple<const void *, bool, uint64_t, int64_t, int64_t>;

  MaskContent contentOf(const Mask &mask, int64_t rows, int64_t keys);

  std::map<Constant, MaskContent> constants;
};

} // namespace stow
