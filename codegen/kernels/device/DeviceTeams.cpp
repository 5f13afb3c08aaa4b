#include "codegen/kernels/device/DeviceTeams.h"

#include "codegen/kernels/device/SharedMemory.h"

#include <bit>
#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Bytes of a row that a thread keeps: 48 registers beside those of the arithmetic.
constexpr int64_t kKeptBytes = 192;
/// Vectors of a row that a thread keeps at most: they are unrolled.
constexpr int64_t kKeptVectors = 16;
/// Warps that keep all multiprocessors of the larger chips busy.
constexpr int64_t kFillingWarps = 1024;
/// Blocks that do so.
constexpr int64_t kFillingBlocks = 256;

/// Lanes of a vector along `axis` that suits all tensors that move along it; 1 where the elements of one do
/// not lie side by side there.
int64_t suitingLanes(const KernelFrame &frame, const Space::Dim &axis) {
  int64_t narrowest = 0, widest = 1;
  for (auto [access, stride] : llvm::enumerate(axis.strides)) {
    if (stride == 0)
      continue;
    if (stride != 1)
      return 1;
    int64_t bytes = frame.buffers[access].elementBytes();
    widest = std::max(widest, bytes);
    if (bytes > 1)
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
  }
  return std::min(kAccessBytes / std::max<int64_t>(narrowest, 1), 2 * kAccessBytes / widest);
}

/// Lanes of vectors at whose multiples all accesses begin: `others` is what moves them beside `axis`.
int64_t vectorLanes(const KernelFrame &frame, const Space::Dim &axis, ArrayRef<Space::Dim> others,
                    ArrayRef<int64_t> offsets) {
  int64_t step = std::gcd(axis.extent, suitingLanes(frame, axis));
  for (auto [access, stride] : llvm::enumerate(axis.strides)) {
    if (stride == 0)
      continue;
    step = std::gcd(step, offsets[access]);
    for (const Space::Dim &dim : others)
      step = std::gcd(step, dim.strides[access]);
  }
  return step;
}

/// Bytes that a row takes of what is read and differs from row to row.
int64_t bytesPerElement(const KernelFrame &frame, const Space &kept, const Space::Dim &axis) {
  int64_t bytes = 0;
  for (size_t access = 0; access < frame.operands; ++access) {
    bool moves = llvm::any_of(kept.dims, [&](auto &dim) { return dim.strides[access] != 0; });
    if (axis.strides[access] != 0 && (moves || kept.elements() == 1))
      bytes += frame.buffers[access].elementBytes();
  }
  return std::max<int64_t>(bytes, 1);
}

/// Adds the access that says where each row would begin, modulo `lanes`, if the tensor of access 0 had no gaps.
/// Dimensions that do not move it are outermost.
void addBeginnings(Space &kept, Space &axis, int64_t lanes) {
  SmallVector<std::pair<int64_t, Space::Dim *>> dims; // by stride
  for (Space *space : {&kept, &axis}) {
    space->offsets.push_back(0);
    for (Space::Dim &dim : space->dims)
      dims.push_back(
          {dim.strides[0] == 0 ? std::numeric_limits<int64_t>::max() : dim.strides[0], &dim});
  }
  for (size_t i = 1; i < dims.size(); ++i) // few: an insertion sort keeps equal strides in order
    for (size_t j = i; j > 0 && dims[j].first < dims[j - 1].first; --j)
      std::swap(dims[j], dims[j - 1]);
  int64_t inner = 1;
  for (auto [stride, dim] : dims) {
    dim->strides.push_back(inner % lanes);
    inner *= dim->extent;
  }
}

/// The vectors and edges of rows that are `axis`, which begin at multiples of `step` where there are any.
void cutRow(Team &team, const Space &axis, int64_t lanes, int64_t step) {
  const int64_t extent = axis.dims.back().extent, runs = axis.elements() / extent;
  team.vectors = {lanes, extent / lanes, 0};
  team.edges = {std::gcd(extent, step), 0, 0, /*areEdges=*/true};
  team.certain = team.vectors.ofRun;
  for (int64_t before = 0; before < lanes; before += step) {
    const int64_t vectors = (extent - before) / lanes;
    team.certain = std::min(team.certain, vectors);
    team.edges.ofRun = std::max(team.edges.ofRun, (extent - vectors * lanes) / team.edges.lanes);
  }
  team.vectors.count = runs * team.vectors.ofRun;
  team.edges.count = runs * team.edges.ofRun;
}

} // namespace

Team teamAlong(const KernelFrame &frame, Space &kept, Space &axis) {
  Team team;
  const int64_t rows = kept.elements(), extent = axis.dims.back().extent;
  int64_t lanes = suitingLanes(frame, axis.dims.back());
  // Of shorter rows most would be edges.
  while (extent % lanes != 0 && extent < 4 * lanes)
    lanes /= 2;
  int64_t step = lanes;
  const int64_t bytes = bytesPerElement(frame, kept, axis.dims.back());
  if (extent % lanes != 0) {
    addBeginnings(kept, axis, lanes);
    for (const Space *space : {&kept, &axis})
      for (const Space::Dim &dim : space->dims)
        if (&dim != &axis.dims.back())
          step = std::gcd(step, dim.strides.back());
  }
  cutRow(team, axis, lanes, step);
  auto keeps = [&] {
    const int64_t vectors = team.ofMember(team.vectors), edges = team.ofMember(team.edges);
    return vectors + edges <= kKeptVectors &&
           (vectors * lanes + edges * team.edges.lanes) * bytes <= kKeptBytes;
  };
  const bool areFew = rows < kFillingWarps && team.vectors.count >= 2 * kWarp;
  if (frame.stage && !frame.stage->isLast())
    team.parts = frame.stage->parts.parts;
  if (team.vectors.count < kWarp) // several rows a warp
    team.members = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(team.vectors.count, 1)));
  if (frame.stage || areFew || !keeps())
    team.members = kDeviceBlock;
  team.keeps = keeps();
  return team;
}

Team teamAcross(const KernelFrame &frame, const Space &outer, const Space::Dim &lane,
                const Space &axis) {
  Team team;
  team.along = false;
  team.vectors.count = axis.elements();
  team.members = 1;
  while (team.members < kWarp && 4 * team.members < team.vectors.count)
    team.members *= 2;
  if (frame.stage && !frame.stage->isLast())
    team.parts = frame.stage->parts.parts;
  SmallVector<Space::Dim> others(outer.dims);
  llvm::append_range(others, axis.dims);
  int64_t &lanes = team.vectors.lanes;
  lanes = vectorLanes(frame, lane, others, axis.offsets);
  // Rather many blocks than wide ones, but whole sectors of 32 bytes: more threads share an axis that is long
  // enough, or vectors are shorter.
  auto width = [&] { return kDeviceBlock / team.members * lanes; };
  while (width() * frame.buffers[0].elementBytes() > 32 &&
         outer.elements() * lane.extent * team.parts / width() < kFillingBlocks) {
    if (2 * team.members <= kWarp * lanes && 2 * team.stride() <= team.vectors.count)
      team.members *= 2;
    else if (lanes > 1)
      lanes /= 2;
    else
      break;
  }
  team.keeps = team.ofMember(team.vectors) <= kKeptVectors &&
               team.ofMember(team.vectors) * team.vectors.lanes * 4 <= kKeptBytes / 2;
  return team;
}

} // namespace stow
