#include "passes/rewrite/AttentionMask.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowShapeOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;

namespace stow {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The number that a constant, repeated or not, holds everywhere.
std::optional<double> numberOf(Value value) {
  while (isa_and_nonnull<BroadcastToOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (elements.getElementType().isInteger(1))
    return elements.getSplatValue<bool>() ? 1 : 0;
  if (isa<IntegerType>(elements.getElementType()))
    return static_cast<double>(elements.getSplatValue<APInt>().getSExtValue());
  return elements.getSplatValue<APFloat>().convertToDouble();
}

namespace {

/// Whether each element of a constant mask lets a score pass; empty where the mask does more than
/// that, or is no constant.
SmallVector<bool> passes(const Mask &mask) {
  SmallVector<bool> seen;
  auto constant = mask.value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements)
    return seen;
  if (mask.isBoolean()) {
    for (bool value : elements.getValues<bool>())
      seen.push_back(value == mask.keeps);
    return seen;
  }
  for (const APFloat &value : elements.getValues<APFloat>()) {
    const double number = value.convertToDouble();
    if (number != 0 && !(number <= kExcluded))
      return {};
    seen.push_back(number == 0);
  }
  return seen;
}

/// True when what a constant mask excludes is minus infinity.
bool excludesInfinitely(const Mask &mask) {
  if (mask.isBoolean())
    return mask.excluded == -kInfinity;
  auto elements = cast<DenseElementsAttr>(mask.value.getDefiningOp<ConstantOp>().getValue());
  return llvm::all_of(elements.getValues<APFloat>(),
                      [](const APFloat &value) { return value.isZero() || value.isInfinity(); });
}

/// `value` before it was repeated along, or given, leading dimensions.
Value withoutLead(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<BroadcastToOp, ReshapeOp>(op))
      break;
    const auto from = tensorType(op->getOperand(0)).getShape(), to = tensorType(value).getShape();
    if (from.size() < 2 || from.take_back(2) != to.take_back(2))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Whether `value` was reshaped since it was `before`, which withoutLead gave: its leading dimensions then stand elsewhere.
bool isReshaped(Value value, Value before) {
  for (; value != before; value = value.getDefiningOp()->getOperand(0))
    if (isa<ReshapeOp>(value.getDefiningOp()))
      return true;
  return false;
}

/// The first of `count` consecutive integers along dimension `fromLast`, 1 or 2, counted from the last, of a constant that is the
/// same in all leading dimensions and whose other one of the last two has extent 1.
std::optional<int64_t> firstPosition(Value value, int64_t fromLast, int64_t count) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  auto extent = [shape = tensorType(value).getShape()](int64_t place) {
    return place <= static_cast<int64_t>(shape.size()) ? shape[shape.size() - place] : 1;
  };
  if (!elements || extent(fromLast) != count || extent(3 - fromLast) != 1)
    return std::nullopt;
  const auto values = elements.getValues<APInt>();
  const int64_t first = (*values.begin()).getSExtValue();
  for (const auto &[i, position] : llvm::enumerate(values))
    if (position.getSExtValue() != first + static_cast<int64_t>(i) % count)
      return std::nullopt;
  return first;
}

/// The opposite of a predicate of order; itself where it has none.
StringRef opposite(StringRef predicate) {
  return llvm::StringSwitch<StringRef>(predicate)
      .Case("lt", "ge")
      .Case("le", "gt")
      .Case("gt", "le")
      .Case("ge", "lt")
      .Default(predicate);
}

/// The predicate of b and a that holds where `predicate` does of a and b.
StringRef exchanged(StringRef predicate) {
  return llvm::StringSwitch<StringRef>(predicate)
      .Case("lt", "gt")
      .Case("le", "ge")
      .Case("gt", "lt")
      .Case("ge", "le")
      .Default(predicate);
}

/// What a comparison of two numbers gives.
bool holds(StringRef predicate, double a, double b) {
  return llvm::StringSwitch<bool>(predicate)
      .Case("eq", a == b)
      .Case("ne", a != b)
      .Case("lt", a < b)
      .Case("le", a <= b)
      .Case("gt", a > b)
      .Default(a >= b);
}

/// The keys for which key - query `predicate` distance; none where that is no order.
std::optional<Band> bandOf(StringRef predicate, double distance) {
  if (predicate == "lt" || predicate == "le")
    return Band{
        {},
        static_cast<int64_t>(predicate == "lt" ? std::ceil(distance) - 1 : std::floor(distance))};
  if (predicate == "gt" || predicate == "ge")
    return Band{
        static_cast<int64_t>(predicate == "gt" ? std::floor(distance) + 1 : std::ceil(distance)),
        {}};
  return std::nullopt;
}

/// By how much the positions of keys and queries, of which `a` and `b` are one each, are apart: a - b is
/// key - query + number, or with `isOfQuery` query - key + number.
struct Distance {
  bool isOfQuery;
  int64_t number;
};
std::optional<Distance> distanceOf(Value a, Value b, int64_t rows, int64_t keys) {
  if (auto key = firstPosition(a, 1, keys), query = firstPosition(b, 2, rows); key && query)
    return Distance{false, *key - *query};
  if (auto query = firstPosition(a, 2, rows), key = firstPosition(b, 1, keys); key && query)
    return Distance{true, *query - *key};
  return std::nullopt;
}

/// The band of a comparison of positions, or of their distance, or of its absolute value, with a number, where it holds.
std::optional<Band> bandOf(CompareOp compare, StringRef predicate, int64_t rows, int64_t keys) {
  Value a = compare.getA(), b = compare.getB();
  if (auto found = distanceOf(a, b, rows, keys)) {
    if (found->isOfQuery)
      return bandOf(exchanged(predicate), static_cast<double>(found->number));
    return bandOf(predicate, static_cast<double>(-found->number));
  }
  if (numberOf(a)) {
    std::swap(a, b);
    predicate = exchanged(predicate);
  }
  const std::optional<double> bound = numberOf(b);
  a = withoutLead(a);
  auto absolute = a.getDefiningOp<AbsOp>();
  auto difference = (absolute ? withoutLead(absolute.getX()) : a).getDefiningOp<SubOp>();
  const auto found = bound && difference
                         ? distanceOf(difference.getA(), difference.getB(), rows, keys)
                         : std::nullopt;
  if (!found)
    return std::nullopt;
  auto ofDifference = [&](StringRef order, double limit) {
    return found->isOfQuery ? bandOf(exchanged(order), static_cast<double>(found->number) - limit)
                            : bandOf(order, limit - static_cast<double>(found->number));
  };
  if (!absolute)
    return ofDifference(predicate, *bound);
  if (predicate != "lt" && predicate != "le")
    return std::nullopt;
  std::optional<Band> both = ofDifference(predicate, *bound);
  both->narrow(*ofDifference(exchanged(predicate), -*bound));
  return both;
}

/// A part of a mask that compares numbers of queries and keys, and the band that it is where these are positions within documents.
struct Counted {
  Mask part;
  RowNumbers positions;
  Band band;
};

/// What a mask leaves: a band of positions, within documents where it compares their numbers, and other masks that all have to hold.
struct Seen {
  Band band = {};
  std::optional<Documents> documents = {};
  Mask ofDocuments = {}; ///< the part that compares their numbers
  SmallVector<Counted> counted = {};
  SmallVector<Mask> rest = {};

  void narrow(const Seen &other) {
    band.narrow(other.band);
    counted.append(other.counted);
    rest.append(other.rest);
    if (!documents) {
      documents = other.documents;
      ofDocuments = other.ofDocuments;
    } else if (other.documents && !(*documents == *other.documents)) {
      rest.push_back(other.ofDocuments);
    }
    if (documents)
      llvm::erase_if(counted, [&](const Counted &one) {
        const bool isBand = countWithin(one.positions, *documents);
        if (isBand)
          band.narrow(one.band);
        return isBand;
      });
  }

  /// What `inner` leaves as what `whole` does, which repeats or reshapes it. Parts behind a reshape do not stand for themselves: in their
  /// place stands the whole.
  void follow(const Mask &whole, Value inner) {
    if (!isReshaped(whole.value, inner))
      return;
    bool isLost = !rest.empty();
    auto moves = [&](RowNumbers &numbers) {
      const bool follows = numbers.follow(whole.value, inner);
      isLost |= !follows;
      return follows;
    };
    if (documents && !(moves(documents->queries) && moves(documents->keys)))
      documents.reset();
    ofDocuments = whole;
    llvm::erase_if(counted, [&](Counted &one) {
      one.part = whole;
      return !moves(one.positions);
    });
    if (isLost)
      rest.assign({whole});
  }
};

/// What a comparison of numbers of queries and keys leaves, which `part` says.
std::optional<Seen> seenByNumbers(const Mask &part, int64_t rows, int64_t keys) {
  auto compare = part.value.getDefiningOp<CompareOp>();
  const StringRef predicate = compare.getPredicate();
  const auto found = rowNumbersOf(compare.getA(), compare.getB(), rows, keys);
  if (!found)
    return std::nullopt;
  const auto &[a, b] = *found;
  if (predicate == (part.keeps ? "eq" : "ne") && a.added == b.added) {
    Seen seen;
    seen.documents = a.isOfQueries ? Documents{a, b} : Documents{b, a};
    seen.ofDocuments = part;
    return seen;
  }
  if (a.numbers != b.numbers || a.lead != b.lead)
    return std::nullopt;
  // a + its summand `order` b + its summand
  const StringRef order = part.keeps ? predicate : opposite(predicate);
  const auto apart = static_cast<double>(b.added - a.added);
  const auto band = a.isOfQueries ? bandOf(exchanged(order), -apart) : bandOf(order, apart);
  if (!band)
    return std::nullopt;
  return Seen{.counted = {Counted{part, a, *band}}};
}

/// What a mask of booleans, or of numbers that hold where they are not 0, leaves where it holds or, without `keeps`, does not:
/// comparisons of positions, their opposites, all of several.
Seen seenOf(Value mask, bool keeps, int64_t rows, int64_t keys) {
  auto read = [&](Value inner) -> std::optional<Seen> {
    if (auto cast = inner.getDefiningOp<CastOp>())
      return seenOf(cast.getX(), keeps, rows, keys);
    if (auto compare = inner.getDefiningOp<CompareOp>()) {
      const StringRef predicate = compare.getPredicate();
      if ((predicate == "eq" || predicate == "ne") && numberOf(compare.getB()) == 0.0)
        return seenOf(compare.getA(), keeps != (predicate == "eq"), rows, keys);
      const auto a = numberOf(compare.getA()), b = numberOf(compare.getB());
      if (a && b && holds(predicate, *a, *b) == keeps)
        return Seen{};
      if (const auto band = bandOf(compare, keeps ? predicate : opposite(predicate), rows, keys))
        return Seen{*band};
      return seenByNumbers(Mask{inner, keeps}, rows, keys);
    }
    auto select = inner.getDefiningOp<SelectOp>();
    if (!select)
      return std::nullopt;
    const Value condition = select.getCondition(), a = select.getA(), b = select.getB();
    const auto there = numberOf(a), elsewhere = numberOf(b);
    if (there && elsewhere && (*there != 0) != (*elsewhere != 0))
      return seenOf(condition, keeps == (*there != 0), rows, keys);
    // Both of two, as `a ? b : a`; the opposite of one or the other, `a ? a : b`.
    if (condition != (keeps ? b : a))
      return std::nullopt;
    Seen both;
    for (Value part : {condition, keeps ? a : b})
      both.narrow(seenOf(part, keeps, rows, keys));
    return both;
  };
  if (const auto number = numberOf(mask); number && (*number != 0) == keeps)
    return {};
  const Value inner = withoutLead(mask);
  Seen seen = read(inner).value_or(Seen{.rest = {Mask{mask, keeps}}});
  seen.follow(Mask{mask, keeps}, inner);
  // Parts that are no booleans do not stand for themselves: with them stays the whole.
  if (llvm::any_of(seen.rest, [](const Mask &part) { return !part.isBoolean(); }))
    seen.rest.assign({Mask{mask, keeps}});
  return seen;
}

/// A mask of numbers that chooses between 0 and a number that excludes, as the choice that it is.
Mask asChoice(const Mask &mask) {
  auto select = withoutLead(mask.value).getDefiningOp<SelectOp>();
  if (mask.isBoolean() || !select)
    return mask;
  const auto a = numberOf(select.getA()), b = numberOf(select.getB());
  if (!a || !b || std::max(*a, *b) != 0 || std::min(*a, *b) > kExcluded)
    return mask;
  return {select.getCondition(), *a == 0, std::min(*a, *b)};
}

/// The band of a constant mask, if it is one: its last key is that of the first query, its first that of the last.
std::optional<Band> bandOf(ArrayRef<bool> seen, int64_t rows, int64_t keys) {
  auto firstOf = [](auto begin, auto end) -> std::optional<int64_t> {
    auto found = std::find(begin, end, true);
    return found == end ? std::nullopt : std::optional<int64_t>(found - begin);
  };
  const auto top = seen.take_front(keys), bottom = seen.slice((rows - 1) * keys, keys);
  const auto fromEnd = firstOf(top.rbegin(), top.rend()),
             fromBegin = firstOf(bottom.begin(), bottom.end());
  if (!fromEnd || !fromBegin)
    return std::nullopt;
  const Band band = {*fromBegin - (rows - 1), keys - 1 - *fromEnd};
  for (int64_t row = 0, place = 0; place < static_cast<int64_t>(seen.size());
       row = (row + 1) % rows)
    for (int64_t key = 0; key < keys; ++key, ++place) {
      const int64_t distance = key - row;
      const bool isBehind = *fromBegin > 0 && distance < *band.first,
                 isBeyond = *fromEnd > 0 && distance > *band.last;
      if (seen[place] == (isBehind || isBeyond))
        return std::nullopt;
    }
  return Band{*fromBegin > 0 ? band.first : std::nullopt, *fromEnd > 0 ? band.last : std::nullopt};
}

/// Reads a mask of scores [..., rows, keys] that is constant, or computed from positions.
MaskContent readContent(const Mask &mask, int64_t rows, int64_t keys) {
  MaskContent result;
  auto leave = [&](const Band &band, const std::optional<Documents> &documents = {}) {
    result.band = band.within(rows, keys);
    result.documents = documents;
    result.keepsOne = keepsOne(result.band, documents, rows, keys);
    result.leaves = result.band.isAll() && !documents  ? Leaves::All
                    : result.band.keepsOne(rows, keys) ? Leaves::Band
                                                       : Leaves::Unknown;
  };
  const Mask choice = asChoice(mask);
  if (choice.isBoolean()) {
    Seen seen = seenOf(choice.value, choice.keeps, rows, keys);
    if (!mask.isBoolean())
      seen.follow(mask, withoutLead(mask.value));
    result.isInfinite = choice.excluded == -kInfinity;
    if (seen.rest.empty() && seen.counted.empty()) {
      leave(seen.band, seen.documents);
      return result;
    }
  }
  const SmallVector<bool> seen = passes(mask);
  const auto shape = tensorType(mask.value).getShape();
  if (seen.empty() || shape.empty() || shape.back() != keys)
    return result;
  result.keepsOne = true;
  result.isInfinite = excludesInfinitely(mask);
  for (size_t row = 0; row < seen.size(); row += keys)
    result.keepsOne &= llvm::is_contained(ArrayRef(seen).slice(row, keys), true);
  if (llvm::all_of(seen, [](bool passes) { return passes; })) {
    result.leaves = Leaves::All;
    return result;
  }
  if (shape.size() >= 2 && shape.end()[-2] == rows)
    if (const auto band = bandOf(seen, rows, keys))
      leave(*band);
  return result;
}

} // namespace

bool keepsOne(const Band &band, const std::optional<Documents> &documents, int64_t rows,
              int64_t keys) {
  if (!documents)
    return band.keepsOne(rows, keys);
  return documents->areShared() && rows == keys && band.first.value_or(0) <= 0 &&
         band.last.value_or(0) >= 0;
}

MaskContent MaskReader::contentOf(const Mask &mask, int64_t rows, int64_t keys) {
  auto constant = mask.value.getDefiningOp<ConstantOp>();
  if (!constant)
    return readContent(mask, rows, keys);
  const Constant key = {constant.getValue().getAsOpaquePointer(), mask.keeps,
                        std::bit_cast<uint64_t>(mask.excluded), rows, keys};
  auto known = constants.find(key);
  if (known == constants.end())
    known = constants.emplace(key, readContent(mask, rows, keys)).first;
  return known->second;
}

SmallVector<std::pair<Mask, MaskContent>> MaskReader::read(const Mask &mask, int64_t rows,
                                                           int64_t keys) {
  const Mask choice = asChoice(mask);
  const bool isAligned = mask.isBoolean() || !isReshaped(mask.value, withoutLead(mask.value));
  if (choice.isBoolean() && choice.excluded == -kInfinity && isAligned) {
    Seen seen = seenOf(choice.value, choice.keeps, rows, keys);
    for (const Counted &one : seen.counted)
      seen.rest.push_back(one.part);
    const Band band = seen.band.within(rows, keys);
    const bool isWhole =
        llvm::any_of(seen.rest, [&](const Mask &part) { return part.value == choice.value; });
    if (!isWhole && band.keepsOne(rows, keys)) {
      SmallVector<std::pair<Mask, MaskContent>> masks;
      if (!band.isAll() || seen.documents)
        masks.push_back({choice,
                         {Leaves::Band, band, seen.documents,
                          keepsOne(band, seen.documents, rows, keys), /*isInfinite=*/true}});
      for (const Mask &part : seen.rest)
        masks.push_back({part, contentOf(part, rows, keys)});
      return masks;
    }
  }
  return {{mask, contentOf(mask, rows, keys)}};
}

} // namespace stow
