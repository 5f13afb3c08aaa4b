#include "passes/solvers/pack/Search.h"

#include <algorithm>

namespace stow::pack {

/// Everything so far: where a failure has no better explanation.
void Search::blameAll() {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  for (size_t frame = 0; frame < frames.size(); ++frame)
    insert(conflict, levelAt(frame));
}

/// Explains that what is to come in `section` starts too high for the bytes it has.
void Search::explainSection(int32_t section, Bytes tooHigh) {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  for (int64_t e = data.blockStart[section]; e < data.blockStart[section + 1]; ++e)
    if (const int32_t item = data.blockItem[e]; !isPlaced(item)) {
      if (lowest[item] < tooHigh)
        return blameAll();
      reasons.add(item, tooHigh, conflict);
      work += static_cast<int64_t>(conflict.size()) / 4;
    }
  work += data.blockStart[section + 1] - data.blockStart[section];
}

/// Explains that a deferred item has no neighbour to come that starts below `start`, or none whose
/// top could lie below `lifted`.
void Search::explainDeferred(int32_t item, Bytes lifted, Bytes start) {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  reasons.add(item, support[item] + 1, conflict);
  bool isKnown = true;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other)) {
      insert(conflict, levelOf[other]);
      return;
    }
    const Bytes bound = std::min(start, lifted - data.step[other]);
    isKnown &= lowest[other] >= bound;
    reasons.add(other, std::min(bound, lowest[other]), conflict);
    work += static_cast<int64_t>(conflict.size()) / 4;
  });
  if (!isKnown)
    blameAll(); // it takes the progress of the whole frame
}

/// Records that `other` lies on `item`, which was just placed, and so at `above` or higher.
void Search::explainRaise(int32_t other, int32_t item, Bytes above) {
  if (!explaining)
    return;
  const Bytes notBelow = support[item] - data.size[other] + 1;
  if (lowest[other] >= notBelow)
    return reasons.record(other, above, levelAt(frames.size() - 1), notBelow);
  blameAll();
  reasons.record(other, above, conflict);
}

/// Explains that `item` and its twin lie in the wrong order, or will.
void Search::explainTwin(int32_t item, int32_t twin) {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  if (isPlaced(twin))
    insert(conflict, levelOf[twin]);
  else
    reasons.add(twin, support[twin], conflict);
  insert(conflict, levelAt(frames.size() - 1));
}

/// After a failure of the first branch: false when it stands whatever becomes of the item.
bool Search::resolveFirst(Frame &frame) {
  if (frame.item < 0 || frame.deferring)
    return false;
  if (!explaining)
    return true;
  const size_t index = frames.size() - 1;
  if (!contains(conflict, levelAt(index)))
    return false;
  if (firstBranch.size() <= index)
    firstBranch.resize(index + 1);
  firstBranch[index] = conflict;
  return true;
}

/// After a failure of the second branch: what both together rest on.
void Search::resolveSecond(const Frame &frame) {
  if (!explaining || frame.item < 0 || !frame.deferring)
    return;
  const size_t index = frames.size() - 1;
  if (!contains(conflict, levelAt(index)))
    return;
  for (size_t w = 0; w < conflict.size(); ++w)
    conflict[w] |= firstBranch[index][w];
  reasons.add(frame.item, support[frame.item], conflict);
  remove(conflict, index);
}

} // namespace stow::pack
