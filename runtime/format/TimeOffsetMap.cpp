// The arena as a picture in characters.
//
// A cell stands for some steps and some addresses. It shows the kind whose buffers cover most of
// it, measured in byte-steps, or a dot when more than half of it is free: sums, not samples, so a
// thin buffer cannot hide a thick one.
#include "runtime/base/Concat.h"
#include "runtime/format/PlanReport.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace stow {

namespace {

/// Kinds as drawn: those of BufferKind and, last, activations that are recomputed.
constexpr size_t drawnKinds = kBufferKinds + 1;
constexpr auto letters =
    std::to_array<char>({'P', 'S', 'O', 'I', 'L', 'A', 'G', 'W', 'U', 'F', 'f', 'o', 'D', 'a'});
constexpr auto meanings = std::to_array<const char *>(
    {"parameter", "statistic", "optimizer", "input", "output", "activation", "gradient",
     "workspace", "accumulator", "frozen", "weights, fetched", "optimizer, fetched", "data set",
     "recomputed"});
static_assert(letters.size() == drawnKinds && meanings.size() == drawnKinds);

/// A stretch of addresses cut into rows.
struct Band {
  Bytes begin = 0, end = 0;
  int64_t rows = 0;

  double bytesPerRow() const { return static_cast<double>(end - begin) / rows; }
};

class CellGrid {
public:
  CellGrid(Band band, int64_t columns, int64_t steps)
      : band(band), columns(columns), stepsPerColumn(static_cast<double>(steps) / columns),
        area(band.rows * columns) {}

  void add(const PlannedBuffer &buffer) {
    double low = std::max(buffer.offset, band.begin) - band.begin;
    double high = std::min(buffer.offset + buffer.size, band.end) - band.begin;
    if (low >= high || buffer.begin >= buffer.end)
      return;
    size_t kind = static_cast<size_t>(buffer.kind);
    if (buffer.recomputed && buffer.kind == BufferKind::Activation)
      kind = drawnKinds - 1;
    double rowBytes = band.bytesPerRow();
    int64_t lastRow = std::min<int64_t>(band.rows - 1, high / rowBytes);
    int64_t lastColumn = std::min<int64_t>(columns - 1, buffer.end / stepsPerColumn);
    for (int64_t row = low / rowBytes; row <= lastRow; ++row) {
      double bytes = std::min(high, (row + 1) * rowBytes) - std::max(low, row * rowBytes);
      for (int64_t column = buffer.begin / stepsPerColumn; column <= lastColumn; ++column) {
        double steps = std::min<double>(buffer.end, (column + 1) * stepsPerColumn) -
                       std::max<double>(buffer.begin, column * stepsPerColumn);
        if (bytes > 0 && steps > 0)
          area[row * columns + column][kind] += bytes * steps;
      }
    }
  }

  char letter(int64_t row, int64_t column) const {
    const auto &kinds = area[row * columns + column];
    double covered = 0;
    for (double value : kinds)
      covered += value;
    if (covered < 0.5 * band.bytesPerRow() * stepsPerColumn)
      return '.';
    return letters[std::ranges::max_element(kinds) - kinds.begin()];
  }

private:
  Band band;
  int64_t columns;
  double stepsPerColumn;
  std::vector<std::array<double, drawnKinds>> area; ///< byte-steps per cell and kind
};

constexpr size_t labelWidth = 12;

/// Addresses in the unit that suits the arena, so that neighbouring rows differ.
class AddressScale {
public:
  explicit AddressScale(Bytes arena) {
    if (arena >= Bytes{4} << 20)
      divisor = 1 << 20, unit = "MiB";
    else if (arena >= Bytes{4} << 10)
      divisor = 1 << 10, unit = "KiB";
  }

  std::string label(Bytes address) const {
    char text[48];
    std::snprintf(text, sizeof(text), "%*.*f %s", static_cast<int>(labelWidth - 1 - unit.size()),
                  divisor > 1 ? 2 : 0, static_cast<double>(address) / divisor, unit.c_str());
    return text;
  }

private:
  double divisor = 1;
  std::string unit = "B";
};

std::string drawBand(const Band &band, const GraphPlan &graph, int64_t columns,
                     const AddressScale &scale) {
  if (band.rows == 0)
    return "";
  CellGrid grid(band, columns, graph.stepCount);
  for (const PlannedBuffer &buffer : graph.buffers)
    grid.add(buffer);
  std::string out;
  for (int64_t row = band.rows; row-- > 0;) {
    out += scale.label(band.begin + static_cast<Bytes>(row * band.bytesPerRow())) + " |";
    for (int64_t column = 0; column < columns; ++column)
      out += grid.letter(row, column);
    out += "|\n";
  }
  return out;
}

std::string markerLine(int64_t column, char marker, const std::string &text) {
  return std::string(labelWidth + 2 + column, ' ') + marker + (text.empty() ? "" : " " + text) +
         "\n";
}

std::string legendOf(const GraphPlan &graph) {
  std::array<bool, drawnKinds> present = {};
  for (const PlannedBuffer &buffer : graph.buffers)
    present[buffer.recomputed && buffer.kind == BufferKind::Activation
                ? drawnKinds - 1
                : static_cast<size_t>(buffer.kind)] = true;
  std::string legend;
  for (size_t kind = 0; kind < drawnKinds; ++kind)
    if (present[kind])
      legend += std::string(1, letters[kind]) + " " + meanings[kind] + "  ";
  return legend + ". free";
}

} // namespace

std::string renderMap(const Plan &plan, const GraphPlan &graph, const ReportOptions &options) {
  if (plan.arenaBytes <= 0 || graph.stepCount <= 0)
    return "arena map: nothing to draw\n";
  int64_t columns = std::clamp<int64_t>(options.mapColumns, 1, graph.stepCount);
  int64_t rows = std::max<int64_t>(options.mapRows, 2);
  Bytes persistent = std::clamp<Bytes>(plan.persistentBytes, 0, plan.arenaBytes);
  Band upper{persistent, plan.arenaBytes, rows};
  Band lower{0, persistent, 0};
  if (persistent == plan.arenaBytes) {
    std::swap(upper.rows, lower.rows);
  } else if (persistent > 0) {
    // State is one block for the whole step: a quarter of the picture says as much as a half.
    int64_t proportional = static_cast<double>(persistent) / plan.arenaBytes * rows;
    lower.rows = std::clamp<int64_t>(proportional, 1, std::max<int64_t>(rows / 4, 1));
    upper.rows = rows - lower.rows;
  }
  std::string out = concat("arena map, graph ", graph.name(), ": ", graph.stepCount,
                           " commands to the right, addresses upwards\n");
  int64_t peakColumn = std::min<int64_t>(columns - 1, static_cast<double>(graph.peakStep) *
                                                          columns / graph.stepCount);
  out += markerLine(peakColumn, 'v', "peak");
  AddressScale scale(plan.arenaBytes);
  out += drawBand(upper, graph, columns, scale);
  if (upper.rows > 0 && lower.rows > 0)
    out += std::string(labelWidth, ' ') + " +" + std::string(columns, '-') +
           "+ parameters and other state below\n";
  out += drawBand(lower, graph, columns, scale);
  out += markerLine(peakColumn, '^', "");
  return out + "  " + legendOf(graph) + "\n";
}

} // namespace stow
