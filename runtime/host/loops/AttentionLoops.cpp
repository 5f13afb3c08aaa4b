#include "runtime/host/loops/AttentionLoops.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/TileProduct.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stow::host {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Keys of a block of the backward, and queries of a tile: whole blocks of registers.
constexpr int64_t blockKeys = 96, tileQueries = 48;

/// Rows of V that a pass of the second product takes, so that a panel of them stays in the cache.
constexpr int64_t depthPass = 256;

int64_t panelsOf(int64_t columns) { return (columns + panelColumns - 1) / panelColumns; }

/// Queries of a tile of the forward: fewer for long rows, whose scores are to stay in the cache.
int64_t forwardQueries(const AttentionSpace &space) {
  const int64_t fitting = 98304 / std::max<int64_t>(space.keys, 1) / 12 * 12;
  return std::clamp<int64_t>(fitting, 12, tileQueries);
}

/// Elements of panels of `rows` transposed to columns, with `depth` rows in whole vectors.
int64_t panelElements(int64_t rows, int64_t depth) {
  return panelsOf(rows) * panelColumns * ((depth + 7) / 8 * 8);
}

//===-- Scratch -------------------------------------------------------------------------------===//

/// Hands out arrays one after the other, or counts what they take.
struct Places {
  char *address = nullptr;
  Bytes taken = 0;
  float *take(int64_t elements) {
    float *place = address ? reinterpret_cast<float *>(address + taken) : nullptr;
    taken += (elements * static_cast<Bytes>(sizeof(float)) + 63) / 64 * 64;
    return place;
  }
};

struct ForwardScratch {
  ForwardScratch(const AttentionSpace &space, char *address) {
    Places places{address};
    const int64_t rows = forwardQueries(space);
    q = places.take(std::max(rows, panelColumns) * tilePitch(space.depth));
    keyPanels = places.take(panelElements(space.keys, space.depth));
    v = places.take(space.keys * tilePitch(space.width));
    scores = places.take(rows * tilePitch(space.keys));
    y = places.take(rows * tilePitch(space.width));
    row = places.take(tilePitch(space.keys));
    others = places.take(space.keyDocuments ? tilePitch(space.keys) : 0);
    bytes = places.taken;
  }
  float *q, *keyPanels, *v, *scores, *y, *row, *others;
  Bytes bytes;
};

struct BackwardScratch {
  BackwardScratch(const AttentionSpace &space, char *address) {
    Places places{address};
    const int64_t keys = std::min(blockKeys, space.keys);
    const int64_t depth = tilePitch(space.depth), width = tilePitch(space.width);
    const int64_t queries = space.shared * space.queries;
    k = places.take(keys * depth);
    keyPanels = places.take(panelElements(keys, space.depth));
    valuePanels = places.take(panelElements(keys, space.width));
    dk = places.take(keys * depth);
    dv = places.take(keys * width);
    q = places.take(tileQueries * depth);
    dy = places.take(tileQueries * width);
    weights = places.take(tileQueries * tilePitch(keys));
    dweights = places.take(tileQueries * tilePitch(keys));
    row = places.take(tilePitch(keys));
    others = places.take(space.keyDocuments ? tilePitch(keys) : 0);
    dq = places.take(queries * depth);
    products = places.take(queries);
    maximum = places.take(queries);
    logSum = places.take(queries);
    bytes = places.taken;
  }
  float *k, *keyPanels, *valuePanels, *dk, *dv, *q, *dy, *weights, *dweights, *row, *others, *dq,
      *products, *maximum, *logSum;
  Bytes bytes;
};

//===-- Copies --------------------------------------------------------------------------------===//

/// Rows from `first` on of matrix `number`.
STOW_INLINE AnyFloats rowsOf(const Matrices &matrices, char *tensor, int64_t number,
                             int64_t first) {
  return AnyFloats{matrices.type, tensor} + (matrices.offset(number) + first * matrices.rowStride);
}

/// `rows` rows into a tile of floats, whose last panel is filled up with zeros.
template <typename V>
STOW_INLINE void load(const Matrices &matrices, AnyFloats from, int64_t rows, int64_t columns,
                      float *to) {
  const int64_t pitch = tilePitch(columns), padded = panelsOf(columns) * panelColumns;
  for (int64_t row = 0; row < rows; ++row, to += pitch) {
    const AnyFloats source = from + row * matrices.rowStride;
    int64_t column = 0;
    if (matrices.columnStride == 1)
      for (; column + lanesOf<V> <= columns; column += lanesOf<V>) {
        V value;
        source.load(column, value);
        at<V>(to + column) = value;
      }
    for (; column < columns; ++column)
      source.load(column * matrices.columnStride, to[column]);
    std::fill(to + columns, to + padded, 0.0f);
  }
}

/// The way back.
template <typename V>
STOW_INLINE void store(const Matrices &matrices, AnyFloats to, int64_t rows, int64_t columns,
                       const float *from) {
  const int64_t pitch = tilePitch(columns);
  for (int64_t row = 0; row < rows; ++row, from += pitch) {
    const AnyFloats target = to + row * matrices.rowStride;
    int64_t column = 0;
    if (matrices.columnStride == 1)
      for (; column + lanesOf<V> <= columns; column += lanesOf<V>) {
        const V value = at<V>(from + column);
        target.store(column, value);
      }
    for (; column < columns; ++column)
      target.store(column * matrices.columnStride, from[column]);
  }
}

/// Sixteen rows of a tile as a panel: row d of it holds their elements d.
STOW_INLINE void transposePanel(const float *tile, int64_t columns, float *panel) {
  const int64_t pitch = tilePitch(columns);
  for (int64_t column = 0; column < columns; column += 8)
#pragma clang loop unroll(full)
    for (int half = 0; half < 2; ++half)
      transpose8(tile + half * 8 * pitch + column, pitch, panel + column * panelColumns + half * 8);
}

/// `rows` rows of a matrix as panels of columns. `tile` holds sixteen rows on the way.
template <typename V>
STOW_INLINE void loadPanels(const Matrices &matrices, AnyFloats from, int64_t rows, int64_t columns,
                            float *tile, float *panels) {
  const int64_t pitch = tilePitch(columns), panel = panelElements(panelColumns, columns);
  for (int64_t row = 0; row < rows; row += panelColumns, panels += panel) {
    const int64_t count = std::min(panelColumns, rows - row);
    load<V>(matrices, from + row * matrices.rowStride, count, columns, tile);
    std::fill(tile + count * pitch, tile + panelColumns * pitch, 0.0f);
    transposePanel(tile, columns, panels);
  }
}

//===-- Scores and weights --------------------------------------------------------------------===//

/// How many keys a query sees, from the first on: at least one.
STOW_INLINE int64_t keysSeen(const AttentionSpace &space, int64_t query) {
  return space.diagonal ? std::min(query + *space.diagonal + 1, space.keys) : space.keys;
}

/// The first key that a query sees.
STOW_INLINE int64_t firstSeen(const AttentionSpace &space, int64_t query) {
  return space.window ? std::max<int64_t>(query + *space.diagonal + 1 - *space.window, 0) : 0;
}

/// What the mask adds to the scores of `count` keys from `first` on: 0 or -infinity for a mask of
/// bytes.
STOW_INLINE void loadMask(const AttentionSpace &space, const AttentionTensors &tensors,
                          int64_t head, int64_t query, int64_t first, int64_t count, float *row) {
  const Matrices &mask = *space.mask;
  const int64_t offset = mask.offset(head) + query * mask.rowStride + first * mask.columnStride;
  if (space.isBoolean)
    for (int64_t i = 0; i < count; ++i)
      row[i] = tensors.mask[offset + i * mask.columnStride] ? 0.0f : -infinity;
  else
    for (int64_t i = 0; i < count; ++i)
      row[i] = reinterpret_cast<const float *>(tensors.mask)[offset + i * mask.columnStride];
}

/// The numbers of documents of rows [first, first + count) of matrix `head`.
template <typename Number> struct Numbers {
  STOW_INLINE Numbers(const Matrices &matrices, const char *tensor, int64_t head, int64_t first)
      : at(reinterpret_cast<const Number *>(tensor) + matrices.offset(head) +
           first * matrices.rowStride),
        stride(matrices.rowStride) {}
  STOW_INLINE Number operator[](int64_t i) const { return at[i * stride]; }
  const Number *at;
  int64_t stride;
};

/// The least and the largest of numbers of documents: rows without a number between them have no document in common.
struct Span {
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();

  template <typename Number> STOW_INLINE void add(const Numbers<Number> &numbers, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      least = std::min<int64_t>(least, numbers[i]);
      most = std::max<int64_t>(most, numbers[i]);
    }
  }
  static STOW_INLINE Span of(const Matrices &matrices, const char *tensor, int64_t head,
                             int64_t first, int64_t count) {
    Span span;
    if (matrices.type == DType::I64)
      span.add(Numbers<int64_t>(matrices, tensor, head, first), count);
    else
      span.add(Numbers<int32_t>(matrices, tensor, head, first), count);
    return span;
  }
  STOW_INLINE bool meets(const Span &other) const {
    return least <= other.most && other.least <= most;
  }
};

/// -infinity for each of `count` keys from `first` on that is of another document than the query, else 0.
template <typename Number>
STOW_INLINE void markOthers(const AttentionSpace &space, const AttentionTensors &tensors,
                            int64_t head, int64_t query, int64_t first, int64_t count, float *row) {
  const Number own = Numbers<Number>(*space.queryDocuments, tensors.queryDocuments, head, query)[0];
  const Numbers<Number> keys(*space.keyDocuments, tensors.keyDocuments, head, first);
  if (keys.stride == 1)
    for (int64_t i = 0; i < count; ++i)
      row[i] = keys.at[i] == own ? 0.0f : -infinity;
  else
    for (int64_t i = 0; i < count; ++i)
      row[i] = keys[i] == own ? 0.0f : -infinity;
}

STOW_INLINE void loadOthers(const AttentionSpace &space, const AttentionTensors &tensors,
                            int64_t head, int64_t query, int64_t first, int64_t count, float *row) {
  if (space.keyDocuments->type == DType::I64)
    markOthers<int64_t>(space, tensors, head, query, first, count, row);
  else
    markOthers<int32_t>(space, tensors, head, query, first, count, row);
}

/// Scores times the scale, with a mask where there is one; a copy of what the loops need.
struct Scaling {
  explicit Scaling(const AttentionSpace &space)
      : scale(static_cast<float>(space.scale)), hasMask(space.mask.has_value()),
        isBoolean(space.isBoolean) {}

  template <typename V>
  STOW_INLINE void apply(const float *scores, const float *added, V &value) const {
    value = at<V>(scores) * scale;
    if (!hasMask)
      return;
    const V mask = at<V>(added);
    if (isBoolean)
      value = mask < V{} ? mask : value;
    else
      value += mask;
  }

  float scale;
  bool hasMask, isBoolean;
};

template <typename V> STOW_INLINE float sumOf(const V &values) {
  float sum = 0;
  for (int i = 0; i < lanesOf<V>; ++i)
    sum += values[i];
  return sum;
}

/// The largest score of a row, which is 0 where the row is to be 0, and the sum of the exponentials of
/// all less that.
struct RowSum {
  float maximum, sum;
};

/// Makes exponentials of `count` products with keys: those of the scores less their largest. There are
/// zeros in place of the first `skipped`, of those that `others` excludes, and beyond them all up to whole panels.
template <typename V>
STOW_INLINE RowSum softmaxRow(const AttentionSpace &space, float *row, const float *added,
                              const float *others, int64_t skipped, int64_t count) {
  const int64_t padded = panelsOf(count) * panelColumns;
  const Scaling scaling(space);
  V most = V{} - infinity;
  for (int64_t i = 0; i < padded; i += lanesOf<V>) {
    V value;
    scaling.apply(row + i, added + i, value);
    if (space.keyDocuments) {
      const V other = at<V>(others + i);
      value = other < V{} ? other : value;
    }
    at<V>(row + i) = value;
    if (i < skipped) {
      std::fill(row + i, row + std::min(skipped, i + lanesOf<V>), -infinity);
      value = at<V>(row + i);
    }
    if (i + lanesOf<V> > count) {
      std::fill(row + std::max(i, count), row + i + lanesOf<V>, -infinity);
      value = at<V>(row + i);
    }
    most = most > value ? most : value; // a NaN of the scores passes into the sum
  }
  float top = -infinity;
  for (int i = 0; i < lanesOf<V>; ++i)
    top = std::max(top, most[i]);
  if (top == -infinity && space.zeroRows) {
    std::fill(row, row + padded, 0.0f);
    return {0, 1};
  }
  if (count == 0)
    return {top, std::numeric_limits<float>::quiet_NaN()};
  V sums = {};
  for (int64_t i = 0; i < padded; i += lanesOf<V>) {
    V power = at<V>(row + i) - top;
    exponential(power, power);
    at<V>(row + i) = power;
    sums += power;
  }
  return {top, sumOf(sums)};
}

/// Philox's first words of eight elements in a row (runtime/base/Philox.h is the same for one).
typedef uint32_t U8 __attribute__((vector_size(32)));
typedef uint64_t W8 __attribute__((vector_size(64)));

STOW_INLINE void philoxWords(uint64_t index, uint64_t stream, uint64_t seed, U8 &words) {
  const W8 places = W8{0, 1, 2, 3, 4, 5, 6, 7} + index;
  U8 c0 = __builtin_convertvector(places, U8), c1 = __builtin_convertvector(places >> 32, U8);
  U8 c2 = U8{} + static_cast<uint32_t>(stream), c3 = U8{} + static_cast<uint32_t>(stream >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const W8 first = __builtin_convertvector(c0, W8) * 0xD2511F53u,
             second = __builtin_convertvector(c2, W8) * 0xCD9E8D57u;
    c0 = __builtin_convertvector(second >> 32, U8) ^ c1 ^ key0;
    c1 = __builtin_convertvector(second, U8);
    c2 = __builtin_convertvector(first >> 32, U8) ^ c3 ^ key1;
    c3 = __builtin_convertvector(first, U8);
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  words = c0;
}

/// What dropout multiplies the weights with: 0, or 1 / (1 - ratio).
struct Dropout {
  Dropout(const AttentionSpace &space, const AttentionTensors &tensors)
      : isOn(tensors.seed != nullptr && space.ratio > 0),
        stream(static_cast<uint64_t>(space.stream)) {
    if (!isOn)
      return;
    seed = space.hasWideSeed ? *reinterpret_cast<const uint64_t *>(tensors.seed)
                             : static_cast<uint64_t>(static_cast<int64_t>(
                                   *reinterpret_cast<const int32_t *>(tensors.seed)));
    const double keep = 1 - space.ratio;
    limit = static_cast<uint32_t>(std::floor(keep * 4294967296.0));
    factor = static_cast<float>(1 / keep);
  }

  /// The factors of eight weights in a row, the first of which is element `index`.
  STOW_INLINE void factors(int64_t index, F8 &result) const {
    U8 words;
    philoxWords(static_cast<uint64_t>(index), stream, seed, words);
    result = words < limit ? F8{} + factor : F8{};
  }

  bool isOn;
  uint64_t stream, seed = 0;
  uint32_t limit = 0;
  float factor = 1;
};

//===-- Forward -------------------------------------------------------------------------------===//

template <typename V> struct Forward {
  const AttentionSpace &space;
  const AttentionTensors &tensors;
  const Dropout &dropout;
  const ForwardScratch &at;

  STOW_INLINE void loadHead(int64_t head) const {
    loadPanels<V>(space.k, rowsOf(space.k, tensors.k, head, 0), space.keys, space.depth, at.q,
                  at.keyPanels);
    load<V>(space.v, rowsOf(space.v, tensors.v, head, 0), space.keys, space.width, at.v);
  }

  /// Tile [first, first + rows) of the queries of `head`.
  STOW_INLINE void run(int64_t head, int64_t first, int64_t rows) const {
    int64_t keys = keysSeen(space, first + rows - 1);
    // Whole panels before the window of the first query are left out.
    int64_t panel = firstSeen(space, first) / panelColumns;
    if (space.keyDocuments)
      leaveOthers(head, first, rows, panel, keys);
    const int64_t from = panel * panelColumns;
    const int64_t panelSize = panelElements(panelColumns, space.depth);
    const int64_t depth = tilePitch(space.depth), width = tilePitch(space.width),
                  pitch = tilePitch(space.keys);
    load<V>(space.q, rowsOf(space.q, tensors.q, head, first), rows, space.depth, at.q);
    multiplyTiles<V>(Left{at.q, depth}, {at.keyPanels + panel * panelSize, panelSize, panelColumns},
                     {at.scores + from, pitch}, rows, panelsOf(keys) - panel, space.depth,
                     Writes::Assigns);
    float sums[tileQueries];
    const AnyFloats lse = rowsOf(space.lse, tensors.lse, head, first);
    for (int64_t row = 0; row < rows; ++row) {
      const RowSum found = weigh(head, first + row, at.scores + row * pitch, from, keys);
      sums[row] = found.sum;
      lse.store(row * space.lse.rowStride, found.maximum);
      lse.store(row * space.lse.rowStride + space.lse.columnStride, std::log(found.sum));
    }
    for (int64_t key = from; key < keys; key += depthPass)
      multiplyTiles<V>(Left{at.scores + key, pitch}, {at.v + key * width, panelColumns, width},
                       {at.y, width}, rows, panelsOf(space.width), std::min(depthPass, keys - key),
                       key == from ? Writes::Assigns : Writes::Adds);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < panelsOf(space.width) * panelColumns; i += lanesOf<V>)
        host::at<V>(at.y + row * width + i) *= 1 / sums[row];
    store<V>(space.y, rowsOf(space.y, tensors.y, head, first), rows, space.width, at.y);
  }

  /// Leaves out panels at both ends that are of no document of the queries; one stays.
  STOW_INLINE void leaveOthers(int64_t head, int64_t first, int64_t rows, int64_t &panel,
                               int64_t &keys) const {
    const Span own = Span::of(*space.queryDocuments, tensors.queryDocuments, head, first, rows);
    int64_t end = panelsOf(keys);
    auto isOthers = [&](int64_t number) {
      const int64_t key = number * panelColumns;
      return !own.meets(Span::of(*space.keyDocuments, tensors.keyDocuments, head, key,
                                 std::min(panelColumns, keys - key)));
    };
    while (end - panel > 1 && isOthers(panel))
      ++panel;
    while (end - panel > 1 && isOthers(end - 1))
      --end;
    keys = std::min(keys, end * panelColumns);
  }

  /// Weights of one query times their sum, of keys [from, keys), whole panels.
  STOW_INLINE RowSum weigh(int64_t head, int64_t query, float *row, int64_t from,
                           int64_t keys) const {
    const int64_t seen = std::clamp(keysSeen(space, query), from, keys);
    if (space.mask)
      loadMask(space, tensors, head, query, from, seen - from, at.row);
    if (space.keyDocuments)
      loadOthers(space, tensors, head, query, from, seen - from, at.others);
    const RowSum found = softmaxRow<V>(space, row + from, at.row, at.others,
                                       firstSeen(space, query) - from, seen - from);
    std::fill(row + panelsOf(seen) * panelColumns, row + panelsOf(keys) * panelColumns, 0.0f);
    if (!dropout.isOn)
      return found;
    const int64_t index = (head * space.queries + query) * space.keys;
    for (int64_t key = from; key < seen; key += lanesOf<F8>) {
      F8 factors;
      dropout.factors(index + key, factors);
      host::at<F8>(row + key) *= factors;
    }
    return found;
  }
};

/// Tasks [begin, end): tiles of the queries of one head after the other.
template <typename V>
STOW_INLINE void runForward(const AttentionSpace &space, const AttentionTensors &tensors,
                            const ForwardScratch &scratch, int64_t begin, int64_t end) {
  const Dropout dropout(space, tensors);
  const Forward<V> forward{space, tensors, dropout, scratch};
  const int64_t rows = forwardQueries(space), tiles = (space.queries + rows - 1) / rows;
  int64_t loaded = -1;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t head = task / tiles, first = task % tiles * rows;
    if (head / space.shared != loaded)
      forward.loadHead(loaded = head / space.shared);
    forward.run(head, first, std::min(rows, space.queries - first));
  }
}

//===-- Backward ------------------------------------------------------------------------------===//

template <typename V> struct Backward {
  const AttentionSpace &space;
  const AttentionTensors &tensors;
  const Dropout &dropout;
  const BackwardScratch &at;

  /// All of a head of keys: dk and dv by blocks of keys, dq at the end.
  STOW_INLINE void run(int64_t head) const {
    const int64_t depth = tilePitch(space.depth), width = tilePitch(space.width);
    std::fill(at.dq, at.dq + space.shared * space.queries * depth, 0.0f);
    for (int64_t i = 0; i < space.shared; ++i)
      for (int64_t query = 0; query < space.queries; query += tileQueries)
        sumProducts(head * space.shared + i, i, query,
                    std::min(tileQueries, space.queries - query));
    for (int64_t key = 0; key < space.keys; key += blockKeys) {
      const int64_t keys = std::min(blockKeys, space.keys - key);
      loadBlock(head, key, keys);
      std::fill(at.dk, at.dk + keys * depth, 0.0f);
      std::fill(at.dv, at.dv + keys * width, 0.0f);
      for (int64_t i = 0; i < space.shared; ++i)
        for (int64_t query = 0; query < space.queries; query += tileQueries) {
          const int64_t rows = std::min(tileQueries, space.queries - query);
          const int64_t seen = std::min(keysSeen(space, query + rows - 1) - key, keys);
          if (seen > 0 && key + keys > firstSeen(space, query) &&
              meet(head * space.shared + i, query, rows, key, seen))
            addTile(head * space.shared + i, i, query, rows, key, seen);
        }
      store<V>(space.dk, rowsOf(space.dk, tensors.dk, head, key), keys, space.depth, at.dk);
      store<V>(space.dv, rowsOf(space.dv, tensors.dv, head, key), keys, space.width, at.dv);
    }
    for (int64_t i = 0; i < space.shared; ++i)
      store<V>(space.dq, rowsOf(space.dq, tensors.dq, head * space.shared + i, 0), space.queries,
               space.depth, at.dq + i * space.queries * depth);
  }

  /// Whether queries and keys may be of one document.
  STOW_INLINE bool meet(int64_t head, int64_t query, int64_t rows, int64_t key,
                        int64_t keys) const {
    return !space.keyDocuments ||
           Span::of(*space.queryDocuments, tensors.queryDocuments, head, query, rows)
               .meets(Span::of(*space.keyDocuments, tensors.keyDocuments, head, key, keys));
  }

  /// Per query the sum of dy times y, which is that of the weights times their gradients.
  STOW_INLINE void sumProducts(int64_t head, int64_t sharing, int64_t query, int64_t rows) const {
    const int64_t width = tilePitch(space.width);
    const int64_t place = sharing * space.queries + query;
    const AnyFloats lse = rowsOf(space.lse, tensors.lse, head, query);
    load<V>(space.dy, rowsOf(space.dy, tensors.dy, head, query), rows, space.width, at.dy);
    // y passes where dv is gathered later.
    for (int64_t row = 0; row < rows; ++row) {
      load<V>(space.y, rowsOf(space.y, tensors.y, head, query + row), 1, space.width, at.dv);
      V sum = {};
      for (int64_t i = 0; i < panelsOf(space.width) * panelColumns; i += lanesOf<V>)
        sum += host::at<V>(at.dy + row * width + i) * host::at<V>(at.dv + i);
      at.products[place + row] = sumOf(sum);
      lse.load(row * space.lse.rowStride, at.maximum[place + row]);
      lse.load(row * space.lse.rowStride + space.lse.columnStride, at.logSum[place + row]);
    }
  }

  STOW_INLINE void loadBlock(int64_t head, int64_t key, int64_t keys) const {
    loadPanels<V>(space.k, rowsOf(space.k, tensors.k, head, key), keys, space.depth, at.q,
                  at.keyPanels);
    loadPanels<V>(space.v, rowsOf(space.v, tensors.v, head, key), keys, space.width, at.dy,
                  at.valuePanels);
    load<V>(space.k, rowsOf(space.k, tensors.k, head, key), keys, space.depth, at.k);
  }

  /// What a tile of scores adds to dk, dv and dq; none of its queries sees more than `keys` keys.
  STOW_INLINE void addTile(int64_t head, int64_t sharing, int64_t query, int64_t rows, int64_t key,
                           int64_t keys) const {
    const int64_t depth = tilePitch(space.depth), width = tilePitch(space.width),
                  pitch = tilePitch(std::min(blockKeys, space.keys)), panels = panelsOf(keys);
    const int64_t first = sharing * space.queries + query;
    load<V>(space.q, rowsOf(space.q, tensors.q, head, query), rows, space.depth, at.q);
    load<V>(space.dy, rowsOf(space.dy, tensors.dy, head, query), rows, space.width, at.dy);
    multiplyTiles<V>(Left{at.q, depth},
                     {at.keyPanels, panelElements(panelColumns, space.depth), panelColumns},
                     {at.weights, pitch}, rows, panels, space.depth, Writes::Assigns);
    multiplyTiles<V>(Left{at.dy, width},
                     {at.valuePanels, panelElements(panelColumns, space.width), panelColumns},
                     {at.dweights, pitch}, rows, panels, space.width, Writes::Assigns);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t seen = std::clamp<int64_t>(keysSeen(space, query + row) - key, 0, keys);
      differentiateRow(head, query + row, key, seen, keys, first + row, at.weights + row * pitch,
                       at.dweights + row * pitch);
    }
    multiplyTiles<V>(LeftTransposed{at.weights, pitch}, {at.dy, panelColumns, width},
                     {at.dv, width}, keys, panelsOf(space.width), rows, Writes::Adds);
    multiplyTiles<V>(LeftTransposed{at.dweights, pitch}, {at.q, panelColumns, depth},
                     {at.dk, depth}, keys, panelsOf(space.depth), rows, Writes::Adds);
    multiplyTiles<V>(Left{at.dweights, pitch}, {at.k, panelColumns, depth},
                     {at.dq + first * depth, depth}, rows, panelsOf(space.depth), keys,
                     Writes::Adds);
  }

  /// The row's weights, as the values are multiplied with, and the gradients of its products with
  /// keys. What it does not see is 0. `place`: that of the row's numbers in the scratch.
  STOW_INLINE void differentiateRow(int64_t head, int64_t query, int64_t key, int64_t seen,
                                    int64_t keys, int64_t place, float *weights,
                                    float *dweights) const {
    const float maximum = at.maximum[place], logSum = at.logSum[place];
    const float product = at.products[place];
    if (space.mask)
      loadMask(space, tensors, head, query, key, seen, at.row);
    if (space.keyDocuments)
      loadOthers(space, tensors, head, query, key, seen, at.others);
    const int64_t padded = panelsOf(keys) * panelColumns;
    const Scaling scaling(space);
    const int64_t index = (head * space.queries + query) * space.keys + key;
    for (int64_t i = 0; i < seen; i += lanesOf<F8>) {
      F8 score, weight, factors, gradient = host::at<F8>(dweights + i);
      scaling.apply(weights + i, at.row + i, score);
      score = (score - maximum) - logSum;
      exponential(score, weight);
      if (dropout.isOn) {
        dropout.factors(index + i, factors);
        gradient *= factors;
      }
      gradient = weight * (gradient - product) * scaling.scale;
      if (dropout.isOn)
        weight *= factors;
      if (space.keyDocuments) {
        const F8 other = host::at<F8>(at.others + i);
        gradient = other < F8{} ? F8{} : gradient;
        weight = other < F8{} ? F8{} : weight;
      }
      host::at<F8>(dweights + i) = gradient;
      host::at<F8>(weights + i) = weight;
    }
    const int64_t before = std::clamp<int64_t>(firstSeen(space, query) - key, 0, seen);
    std::fill(weights, weights + before, 0.0f);
    std::fill(dweights, dweights + before, 0.0f);
    std::fill(weights + seen, weights + padded, 0.0f);
    std::fill(dweights + seen, dweights + padded, 0.0f);
  }
};

template <typename V>
STOW_INLINE void runBackward(const AttentionSpace &space, const AttentionTensors &tensors,
                             const BackwardScratch &scratch, int64_t begin, int64_t end) {
  const Dropout dropout(space, tensors);
  const Backward<V> backward{space, tensors, dropout, scratch};
  for (int64_t head = begin; head < end; ++head)
    backward.run(head);
}

//===-- Instructions --------------------------------------------------------------------------===//

#define STOW_FOR(name, target, V)                                                                  \
  target void forward##name(const AttentionSpace &space, const AttentionTensors &tensors,          \
                            const ForwardScratch &scratch, int64_t begin, int64_t end) {           \
    runForward<V>(space, tensors, scratch, begin, end);                                            \
  }                                                                                                \
  target void backward##name(const AttentionSpace &space, const AttentionTensors &tensors,         \
                             const BackwardScratch &scratch, int64_t begin, int64_t end) {         \
    runBackward<V>(space, tensors, scratch, begin, end);                                           \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

template <typename Scratch>
using LoopsFn = void (*)(const AttentionSpace &, const AttentionTensors &, const Scratch &, int64_t,
                         int64_t);

/// Gives every thread a range of the tasks and scratch of its own.
template <typename Scratch>
void runTasks(int64_t tasks, char *scratch, int64_t threads, const AttentionSpace &space,
              const AttentionTensors &tensors, LoopsFn<Scratch> loops) {
  const int64_t slots = std::min(threads, tasks);
  const Bytes bytes = Scratch(space, nullptr).bytes;
  parallelFor(slots, slots, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      loops(space, tensors, Scratch(space, scratch + slot * bytes), tasks * slot / slots,
            tasks * (slot + 1) / slots);
  });
}

} // namespace

//===-- Spaces --------------------------------------------------------------------------------===//

std::optional<Matrices> Matrices::of(const Shape &shape, const Layout &layout, DType type) {
  if (shape.size() < 2 || !layout.blocks.empty() || layout.groups != 1)
    return std::nullopt;
  const std::vector<int64_t> strides = outerStrides(layout, shape);
  Matrices result;
  result.type = type;
  result.extents.assign(shape.begin(), shape.end() - 2);
  result.strides.assign(strides.begin(), strides.end() - 2);
  result.rowStride = strides.end()[-2];
  result.columnStride = strides.end()[-1];
  return result;
}

/// Strides of a tensor repeated to `rank` dimensions: 0 where it has none or an extent of 1.
static std::vector<int64_t> repeatedStrides(const Shape &shape, const Layout &layout, size_t rank) {
  std::vector<int64_t> strides = outerStrides(layout, shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1)
      strides[i] = 0;
  strides.insert(strides.begin(), rank - shape.size(), 0);
  return strides;
}

std::optional<Matrices> Matrices::repeated(const Shape &shape, const Layout &layout, DType type,
                                           const Shape &leading) {
  if (!layout.blocks.empty() || layout.groups != 1)
    return std::nullopt;
  const std::vector<int64_t> strides = repeatedStrides(shape, layout, leading.size() + 2);
  Matrices result;
  result.type = type;
  result.extents = leading;
  result.strides.assign(strides.begin(), strides.end() - 2);
  result.rowStride = strides.end()[-2];
  result.columnStride = strides.end()[-1];
  return result;
}

std::optional<Matrices> Matrices::repeatedColumns(const Shape &shape, const Layout &layout,
                                                  DType type, const Shape &leading) {
  if (!layout.blocks.empty() || layout.groups != 1)
    return std::nullopt;
  std::vector<int64_t> strides = repeatedStrides(shape, layout, leading.size() + 1);
  Matrices result;
  result.type = type;
  result.extents = leading;
  result.rowStride = strides.back();
  strides.pop_back();
  result.strides = std::move(strides);
  return result;
}

int64_t Matrices::offset(int64_t number) const {
  int64_t offset = 0;
  for (size_t i = extents.size(); i-- > 0; number /= extents[i])
    offset += number % extents[i] * strides[i];
  return offset;
}

int64_t AttentionSpace::forwardTasks() const {
  const int64_t rows = forwardQueries(*this);
  return heads * shared * ((queries + rows - 1) / rows);
}

Bytes AttentionSpace::forwardScratchBytes() const { return ForwardScratch(*this, nullptr).bytes; }
Bytes AttentionSpace::backwardScratchBytes() const { return BackwardScratch(*this, nullptr).bytes; }

void attend(const AttentionSpace &space, const AttentionTensors &tensors, char *scratch,
            int64_t threads) {
  runTasks<ForwardScratch>(space.forwardTasks(), scratch, threads, space, tensors,
                           STOW_FOR_INSTRUCTIONS(forward));
}

void attendGradient(const AttentionSpace &space, const AttentionTensors &tensors, char *scratch,
                    int64_t threads) {
  runTasks<BackwardScratch>(space.heads, scratch, threads, space, tensors,
                            STOW_FOR_INSTRUCTIONS(backward));
}

const char *attentionInstructions() {
  return usesAvx512() ? "avx512" : usesAvx2() ? "avx2" : "sse2";
}

} // namespace stow::host
