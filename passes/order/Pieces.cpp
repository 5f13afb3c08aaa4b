#include "passes/order/Pieces.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <utility>

namespace stow {

bool Pieces::refine(const std::vector<Mark> &marks) {
  llvm::SmallDenseMap<std::pair<unsigned, unsigned>, unsigned, 16> numbers;
  std::vector<Run> refined;
  Bytes begin = 0;
  size_t next = 0;
  for (const Run &run : runs)
    while (begin < run.end) {
      while (next < marks.size() && marks[next].end <= begin)
        ++next;
      const bool isMarked = next < marks.size() && marks[next].begin <= begin;
      const unsigned key = isMarked ? marks[next].key : 0;
      Bytes end = run.end;
      if (next < marks.size())
        end = std::min(end, isMarked ? marks[next].end : marks[next].begin);
      const unsigned piece =
          numbers.try_emplace({run.piece, key}, static_cast<unsigned>(numbers.size()))
              .first->second;
      if (!refined.empty() && refined.back().piece == piece)
        refined.back().end = end;
      else
        refined.push_back({end, piece});
      begin = end;
    }
  const bool isFiner = numbers.size() > pieces;
  if (isFiner) {
    runs = std::move(refined);
    pieces = static_cast<unsigned>(numbers.size());
  }
  return isFiner;
}

void Pieces::visit(Bytes begin, Bytes end,
                   llvm::function_ref<void(unsigned, Bytes, Bytes)> run) const {
  auto at = llvm::upper_bound(runs, begin, [](Bytes b, const Run &r) { return b < r.end; });
  for (; begin < end && at != runs.end(); begin = at++->end)
    run(at->piece, begin, std::min(end, at->end));
}

unsigned Pieces::at(Bytes byte) const {
  return llvm::upper_bound(runs, byte, [](Bytes b, const Run &r) { return b < r.end; })->piece;
}

std::vector<Bytes> Pieces::sizes() const {
  std::vector<Bytes> bytes(pieces, 0);
  Bytes begin = 0;
  for (const Run &run : runs) {
    bytes[run.piece] += run.end - begin;
    begin = run.end;
  }
  return bytes;
}

} // namespace stow
