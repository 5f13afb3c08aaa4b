#include "runtime/host/pieces/Strips.h"

#include <algorithm>

namespace stow::host {

RowWindows::RowWindows(const Command &command, size_t input, size_t weights, size_t output)
    : stride(command.ints.at("strides")[0]), padBegin(command.ints.at("pads")[0]),
      inputRows(command.operands[input].shape[2]), outputRows(command.operands[output].shape[2]) {
  extent = (command.operands[weights].shape[2] - 1) * command.ints.at("dilations")[0] + 1;
}

int64_t RowWindows::inputOf(int64_t rows) const {
  return std::min(inputRows, (rows - 1) * stride + extent);
}

int64_t RowWindows::outputOf(int64_t rows) const {
  return std::min(outputRows, (rows + extent - 2) / stride + 1);
}

std::optional<Strip> stripOfOutput(const RowWindows &windows, int64_t begin, int64_t rows) {
  const int64_t first = begin * windows.stride - windows.padBegin,
                last = (begin + rows - 1) * windows.stride - windows.padBegin + windows.extent;
  const int64_t from = std::max<int64_t>(first, 0), to = std::min(last, windows.inputRows);
  if (from >= to)
    return std::nullopt;
  return Strip{from, to - from, begin, rows, from - first, last - to};
}

std::optional<Strip> stripOfInput(const RowWindows &windows, int64_t begin, int64_t rows) {
  // Output row o reads input rows from o * stride - padBegin on, `extent` of them.
  const int64_t lowest = begin + windows.padBegin - windows.extent + 1,
                highest = begin + rows - 1 + windows.padBegin;
  const int64_t from = lowest <= 0 ? 0 : (lowest + windows.stride - 1) / windows.stride,
                to = std::min(windows.outputRows, highest / windows.stride + 1);
  const int64_t padBegin = windows.padBegin + begin - from * windows.stride;
  const int64_t padEnd = (to - from - 1) * windows.stride + windows.extent - rows - padBegin;
  if (from >= to || padBegin < 0 || padEnd <= -windows.stride)
    return std::nullopt;
  return Strip{begin, rows, from, to - from, padBegin, std::max<int64_t>(padEnd, 0)};
}

void setPads(Command &command, const Strip &strip) {
  std::vector<int64_t> &pads = command.ints.at("pads");
  pads[0] = strip.padBegin;
  pads[pads.size() / 2] = strip.padEnd;
}

} // namespace stow::host
