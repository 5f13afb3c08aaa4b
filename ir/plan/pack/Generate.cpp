#include "ir/plan/pack/Generate.h"
#include "ir/plan/Random.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

namespace stow::pack {

namespace {

// Each random number is drawn in a statement of its own wherever a call needs several: the order in
// which arguments are evaluated is up to the compiler.

Bytes to64(int64_t bytes) { return alignUp(std::max<int64_t>(bytes, 1), 64); }

void add(Problem &problem, const char *kind, Time begin, Time end, Bytes size) {
  Buffer buffer;
  buffer.name = absl::StrCat(kind, problem.buffers.size());
  buffer.life = {begin, end};
  buffer.size = size;
  problem.buffers.push_back(std::move(buffer));
}

/// Ties some buffers of a random problem together: views of lone buffers, and slices that live
/// before their container does.
void addStorages(Problem &problem, Random &random) {
  const auto count = static_cast<BufferId>(problem.buffers.size());
  std::vector<char> used(count, 0);
  for (BufferId id = 0; id < count; ++id) {
    if (used[id] || !random.chance(0.3))
      continue;
    const auto other = static_cast<BufferId>(random.integer(0, count - 1));
    if (other == id || used[other])
      continue;
    Buffer &buffer = problem.buffers[id];
    const Buffer &target = problem.buffers[other];
    if (random.chance(0.5)) {
      buffer.sameAs = other;
    } else if (buffer.size <= target.size) {
      const Bytes places = (target.size - buffer.size) / buffer.alignment;
      buffer.inside = Inside{other, random.integer(0, places) * buffer.alignment};
    } else {
      continue;
    }
    used[id] = used[other] = 1;
  }
}

} // namespace

Problem generate(uint64_t seed, const GenerateOptions &options) {
  Random random(seed);
  Problem problem;
  const Bytes alignments[] = {1, 1, 2, 4, 8, 3};
  for (int32_t i = 0; i < options.buffers; ++i) {
    const Time begin = random.integer(0, options.horizon - 1);
    const Time end = random.integer(begin + 1, options.horizon);
    add(problem, "b", begin, end, random.integer(1, options.maxSize));
    Buffer &buffer = problem.buffers.back();
    if (options.alignments)
      buffer.alignment = alignments[random.integer(0, 5)];
    if (options.persistent && random.chance(0.08))
      buffer.persistent = true;
  }
  if (options.storages)
    addStorages(problem, random);
  if (options.fixed)
    for (Buffer &buffer : problem.buffers)
      if (!buffer.inside && !buffer.sameAs && random.chance(0.2))
        buffer.fixedOffset =
            random.integer(0, options.maxSize / buffer.alignment) * buffer.alignment;
  return problem;
}

Problem generateTrace(int32_t count, uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.buffers.reserve(count);
  for (int32_t i = 0; i < count; ++i) {
    const Time length = 2 * random.logUniform(0, 11);
    const Bytes size = random.logUniform(4, 20);
    add(problem, "t", 2 * Time(i), 2 * Time(i) + length, size);
  }
  return problem;
}

Problem generateTraining(int32_t blocks, uint64_t seed) {
  Random random(seed);
  constexpr int32_t perBlock = 100, forward = 50, saved = 20;
  Bytes sizes[perBlock];
  Time lengths[perBlock];
  for (int32_t i = 0; i < perBlock; ++i) {
    sizes[i] = to64(random.logUniform(8, 24));
    lengths[i] = random.integer(1, 5);
  }
  Problem problem;
  problem.buffers.reserve(static_cast<size_t>(blocks) * perBlock);
  const Time last = Time(blocks) * perBlock;
  for (int32_t block = 0; block < blocks; ++block)
    for (int32_t i = 0; i < forward; ++i) {
      const Time begin = Time(block) * forward + i;
      const Time end = i < saved ? last - begin : begin + lengths[i];
      add(problem, "f", begin, end, sizes[i]);
    }
  for (int32_t block = 0; block < blocks; ++block)
    for (int32_t i = forward; i < perBlock; ++i) {
      const Time begin = last / 2 + Time(block) * forward + (i - forward);
      add(problem, "g", begin, begin + lengths[i], sizes[i]);
    }
  return problem;
}

Certified generateCertifiedPuzzle(int32_t count, uint64_t seed, int64_t side, int64_t grid) {
  Random random(seed);
  struct Piece {
    int64_t begin, end, low, high; // in grid cells
  };
  std::vector<Piece> pieces{{0, side / grid, 0, side / grid}};
  // A few failed draws in a row mean that nearly all pieces are single cells.
  for (int32_t failures = 0; static_cast<int32_t>(pieces.size()) < count && failures < 1000;) {
    Piece &piece = pieces[random.integer(0, static_cast<int64_t>(pieces.size()) - 1)];
    Piece rest = piece;
    const bool inTime = random.chance(0.5);
    const int64_t first = inTime ? piece.begin : piece.low, last = inTime ? piece.end : piece.high;
    if (last - first < 2) {
      ++failures;
      continue;
    }
    failures = 0;
    const int64_t cut = random.integer(first + 1, last - 1);
    (inTime ? piece.end : piece.high) = cut;
    (inTime ? rest.begin : rest.low) = cut;
    pieces.push_back(rest);
  }
  for (size_t i = pieces.size(); i > 1; --i)
    std::swap(pieces[i - 1], pieces[random.integer(0, static_cast<int64_t>(i) - 1)]);
  Certified puzzle;
  for (const Piece &piece : pieces) {
    add(puzzle.problem, "z", piece.begin * grid, piece.end * grid, (piece.high - piece.low) * grid);
    puzzle.packing.offsets.push_back(piece.low * grid);
  }
  puzzle.packing.height = heightOf(puzzle.problem, puzzle.packing.offsets);
  return puzzle;
}

Problem generatePuzzle(int32_t count, uint64_t seed, int64_t side, int64_t grid) {
  return generateCertifiedPuzzle(count, seed, side, grid).problem;
}

namespace {

/// Writes down a step with nested checkpoints, tick by tick.
class NestedTraining {
public:
  NestedTraining(int32_t blocks, Random &random, Problem &problem)
      : random(random), problem(problem) {
    // Widths drift as in a network with stages.
    int64_t width = random.logUniform(19, 21);
    for (int32_t block = 0; block < blocks; ++block) {
      if (random.chance(0.2))
        width = random.logUniform(18, 21);
      widths.push_back(width * random.integer(80, 100) / 100);
    }
    train(0, blocks);
  }

private:
  Bytes tensor(int32_t block, int64_t numerator, int64_t denominator) {
    return to64(widths[block] * numerator / denominator + 64 * random.integer(0, 2));
  }

  /// The output of a block that is passed through without keeping its activations.
  void pass(int32_t block) {
    add(problem, "f", now, now + 2, tensor(block, random.integer(1, 8), 3));
    add(problem, "o", now + 1, now + 3, tensor(block, 1, 1));
    now += 2;
  }

  /// Runs blocks [begin, end) forward and backward.
  void train(int32_t begin, int32_t end) {
    if (end - begin == 1)
      return trainBlock(begin);
    std::vector<int32_t> starts;
    const int32_t step = (end - begin + parts - 1) / parts;
    for (int32_t start = begin; start < end; start += step)
      starts.push_back(start);
    std::vector<size_t> kept;
    for (size_t part = 1; part < starts.size(); ++part) {
      for (int32_t block = starts[part - 1]; block < starts[part]; ++block)
        pass(block);
      kept.push_back(problem.buffers.size());
      add(problem, "c", now, now + 1, tensor(starts[part], random.integer(1, 3), 8));
    }
    for (size_t part = starts.size(); part-- > 0;) {
      train(starts[part], part + 1 < starts.size() ? starts[part + 1] : end);
      if (part > 0)
        problem.buffers[kept[part - 1]].life.end = now;
    }
  }

  /// The activations of one block live to their mirrored tick. Those of a wide block are fewer
  /// bytes per width: all blocks reach about the same height, so that no instant alone decides.
  void trainBlock(int32_t block) {
    const Time begin = now, last = begin + 2 * ticks;
    Bytes room = blockBytes;
    for (Time tick = begin; tick < begin + ticks; ++tick) {
      const Time mirror = last - (tick - begin);
      const Bytes share = room / (begin + ticks - tick);
      const Bytes saved =
          tick + 1 < begin + ticks ? to64(share * random.integer(20, 180) / 100) : share;
      room -= saved;
      add(problem, "s", tick, mirror, to64(saved));
      if (random.chance(0.4))
        add(problem, "m", tick, mirror, to64(random.logUniform(6, 11)));
      const Time forwardLife = random.integer(1, 3);
      add(problem, "t", tick, tick + forwardLife, tensor(block, random.integer(1, 8), 3));
      const Time backwardLife = random.integer(1, 4);
      add(problem, "g", mirror - 1, mirror + backwardLife, tensor(block, random.integer(1, 8), 3));
    }
    now = last;
  }

  static constexpr Bytes blockBytes = Bytes(24) << 20;
  static constexpr int32_t parts = 4;
  static constexpr Time ticks = 8;

  Random &random;
  Problem &problem;
  std::vector<int64_t> widths;
  Time now = 0;
};

} // namespace

Problem generateNestedTraining(int32_t count, uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.buffers.reserve(count);
  // A block has 27 buffers, and 2 each time it is passed through.
  double depth = 0;
  for (double blocks = count / 27.0; blocks > 1; blocks /= 4)
    ++depth;
  NestedTraining(std::max(1, static_cast<int32_t>(count / (27 + 1.5 * depth))), random, problem);
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 64;
  return problem;
}

Problem generateHardTraining(int32_t count, uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.buffers.reserve(count + 64);
  // Widths drift from block to block as in a network with stages, so that a hole left by one block
  // rarely fits the next; a block's tensors are small multiples and fractions of its width.
  constexpr int32_t perBlock = 60;
  const int32_t blocks = std::max(1, count / perBlock);
  const Time ticks = 24; // forward ticks of a block; its backward pass takes the same
  const Time middle = blocks * ticks, last = 2 * middle;
  int64_t width = random.logUniform(14, 18);
  for (int32_t block = 0; block < blocks; ++block) {
    if (random.chance(0.05))
      width = random.logUniform(12, 20);
    const int64_t tokens = width * random.integer(60, 100) / 100;
    const Time begin = block * ticks, mirror = last - begin - ticks;
    auto tensor = [&](int64_t numerator, int64_t denominator) {
      return to64(tokens * numerator / denominator + 64 * random.integer(0, 2));
    };
    for (int32_t i = 0; i < perBlock; ++i) {
      const Time birth = begin + random.integer(0, ticks - 1);
      const Time back = mirror + (begin + ticks - 1 - birth);
      const double kind = random.real();
      if (kind < 0.28) { // saved until its own backward tick
        add(problem, "s", birth, back + 1, tensor(random.integer(1, 4), 1));
      } else if (kind < 0.33) { // saved, but freed early: its gradient is taken elsewhere
        const Time life = 1 + (back - birth) * random.integer(10, 90) / 100;
        add(problem, "e", birth, birth + life, tensor(1, random.integer(1, 8)));
      } else if (kind < 0.38) { // statistics: tiny and long
        add(problem, "m", birth, back + 1, to64(random.logUniform(6, 11)));
      } else if (kind < 0.40) { // a gradient that accumulates over several blocks
        const Time life = ticks * random.integer(1, 40);
        add(problem, "a", back, std::min(last, back + life), tensor(2, 1));
      } else if (kind < 0.62) { // a temporary of the forward pass
        const Time life = random.integer(1, 6);
        add(problem, "f", birth, birth + life, tensor(random.integer(1, 8), 3));
      } else if (kind < 0.72) { // recomputed just before its use
        add(problem, "r", back - std::min<Time>(back - middle, 3), back + 2,
            tensor(random.integer(1, 3), 1));
      } else { // a temporary of the backward pass
        const Time life = random.integer(1, 6);
        add(problem, "g", back, back + life, tensor(random.integer(1, 8), 3));
      }
    }
  }
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 64;
  for (int32_t i = 0; i < 32; ++i) {
    add(problem, "p", 0, last, to64(random.logUniform(10, 26)));
    problem.buffers.back().persistent = true;
    problem.buffers.back().alignment = 64;
  }
  return problem;
}

Problem generateRecurrentTraining(int32_t count, uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.buffers.reserve(count);
  constexpr Bytes gate = 32'768;
  constexpr Time forwardTicks = 5, backwardTicks = 6, sumTicks = 3; // of a cell
  const Time cells = std::max(2, count / 14);
  const Time middle = cells * forwardTicks, sums = middle + cells * backwardTicks;
  add(problem, "i", 0, middle / 4, cells * gate / 4);
  for (Time cell = 0; cell < cells; ++cell) {
    const Time forward = cell * forwardTicks;
    const Time back = middle + (cells - 1 - cell) * backwardTicks;
    const Time sum = sums + (cells - 1 - cell) * sumTicks;
    add(problem, "s", forward, sum + 1, gate / 4);
    add(problem, "t", forward, forward + 2, 4 * gate);
    if (4 * cell < cells && random.chance(0.3)) // for a cell soon after that is computed again
      add(problem, "r", forward + 1, forward + random.integer(5, middle - forward - 1), 4 * gate);
    for (Time i = 0; i < 7; ++i) {
      const Time birth = forward + i / 2, death = back + backwardTicks - i / 2;
      if (random.chance(0.74)) {
        add(problem, "g", birth, death, gate);
      } else {
        add(problem, "f", birth, birth + 2, gate);
        add(problem, "a", back, death, gate);
      }
    }
    const bool isWaiting = random.chance(0.95);
    add(problem, "d", back + 1, isWaiting ? sum + 2 : back + 3, 4 * gate);
    if (random.chance(0.02))
      add(problem, "w", back + 2, sum, 32 * gate);
    add(problem, "w", sum, sum + 2, 32 * gate);
  }
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 64;
  return problem;
}

} // namespace stow::pack
