// The time/memory frontier as an SVG file.
//
// Two step lines over the arena's size: the time of the plan that was found, and the proven bound
// of the time of any plan. A vertical line marks the size below which no plan exists. Labels stand
// at the axes and in the legend only, so that none can overlap another. Readers choose between
// light and dark themselves.
#include "compiler/FrontierReport.h"

#include <absl/strings/str_format.h>
#include <algorithm>
#include <cmath>

namespace stow {
namespace {

/// For text between tags.
std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

/// 1, 2 or 5 times a power of ten: the least such step that divides `range` into at most `most`
/// parts.
double niceStep(double range, int most) {
  double step = std::pow(10, std::floor(std::log10(range / most)));
  for (double factor : {1.0, 2.0, 5.0})
    if (range / (factor * step) <= most)
      return factor * step;
  return 10 * step;
}

/// An axis from `low` to `high` in steps, which are multiples of the step.
struct Axis {
  double low, high, step;

  static Axis over(double from, double to, int mostSteps) {
    double step = niceStep(std::max(to - from, 1e-3 * std::max(to, 1e-3)), mostSteps);
    double low = std::floor(from / step) * step;
    return {low, std::max(std::ceil(to / step) * step, low + step), step};
  }
  int steps() const { return static_cast<int>(std::lround((high - low) / step)); }
  double at(int i) const { return low + i * step; }
  double share(double value) const { return (value - low) / (high - low); }
};

constexpr double width = 720, height = 450, left = 80, right = 690, top = 84, bottom = 380;

constexpr const char *style = R"(<style>
  .page { fill: #ffffff; } text { fill: #1f2328; } .small { font-size: 12px; }
  .grid { stroke: #d8dee4; } .axis { stroke: #656d76; }
  .plan { stroke: #0969da; } .dot { fill: #0969da; } .bound { stroke: #57606a; } .none { stroke: #cf222e; }
  .line { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; }
    .grid { stroke: #30363d; } .axis { stroke: #8d96a0; }
    .plan { stroke: #58a6ff; } .dot { fill: #58a6ff; } .bound { stroke: #9198a1; } .none { stroke: #ff7b72; }
  }
</style>
)";

class Picture {
public:
  explicit Picture(const Frontier &frontier) : frontier(frontier) {
    const auto full = static_cast<double>(frontier.points.front().arenaBytes);
    for (; unitBytes * 1024 <= full; unitBytes *= 1024)
      ++unit;
    double least = 0, most = 1;
    for (const FrontierPoint &point : frontier.points) {
      least = std::min(least, extra(point.time));
      most = std::max(most, extra(point.time));
    }
    memory = Axis::over(static_cast<double>(frontier.lowerBound) / unitBytes, full / unitBytes, 7);
    time = Axis::over(least, most, 5);
  }

  std::string draw() {
    const std::string title = "Time against memory" +
                              (frontier.model.empty() ? "" : ": " + frontier.model) +
                              " (costs: " + frontier.device + ")";
    text = absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
        "width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"13\">\n",
        width, height, width, height);
    text += "<title>" + escaped(title) + "</title>\n";
    text += style;
    text +=
        absl::StrFormat("<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
    text += absl::StrFormat(
        "<text x=\"%.1f\" y=\"28\" font-size=\"16\" font-weight=\"bold\">%s</text>\n", left,
        escaped(title));
    drawAxes();
    drawBound();
    drawPlans();
    double x = xOf(frontier.lowerBound);
    text += absl::StrFormat(
        "<line class=\"none\" stroke-width=\"2\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
        "y2=\"%.1f\"/>\n",
        x, top, x, bottom);
    drawDots();
    drawLegend();
    return text + "</svg>\n";
  }

private:
  /// Time beyond running every op once, in percent of that.
  double extra(schedule::Cost cost) const { return extraPercent(frontier, cost); }
  double xOf(Bytes bytes) const {
    return left + (right - left) * memory.share(static_cast<double>(bytes) / unitBytes);
  }
  double yOf(double percent) const { return bottom - (bottom - top) * time.share(percent); }

  void drawAxes() {
    for (int i = 0; i <= time.steps(); ++i) {
      double y = yOf(time.at(i));
      text +=
          absl::StrFormat("<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                          i ? "grid" : "axis", left, y, right, y);
      text += absl::StrFormat(
          "<text class=\"small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left - 8,
          y + 4, time.at(i));
    }
    for (int i = 0; i <= memory.steps(); ++i) {
      double x = left + (right - left) * memory.share(memory.at(i));
      text += absl::StrFormat(
          "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x, bottom, x,
          bottom + 5);
      text +=
          absl::StrFormat("<text class=\"small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g"
                          "</text>\n",
                          x, bottom + 20, memory.at(i));
    }
    const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    text += absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">arena, %s</text>\n",
                            (left + right) / 2, bottom + 46, units[unit]);
    text += absl::StrFormat(
        "<text x=\"24\" y=\"%.1f\" text-anchor=\"middle\" transform=\"rotate(-90 24 "
        "%.1f)\">extra time, %%</text>\n",
        (top + bottom) / 2, (top + bottom) / 2);
  }

  /// From the largest size down. Sizes between two plans are served by the smaller one.
  void drawPlans() {
    std::string path;
    for (const FrontierPoint &point : frontier.points) {
      double x = xOf(point.arenaBytes), y = yOf(extra(point.time));
      path += path.empty() ? absl::StrFormat("M%.1f %.1f", x, y)
                           : absl::StrFormat(" V%.1f H%.1f", y, x);
    }
    drawPath("plans", "line plan", path);
  }

  /// The bound of a budget holds for all smaller sizes; the next budget's may be higher. It does not count
  /// copies, so it may be below the time with everything kept, and then lies on the axis.
  void drawBound() {
    std::string path;
    for (const FrontierPoint &point : frontier.points) {
      double x = xOf(point.budgetBytes), y = std::min(yOf(extra(point.bound)), bottom);
      path += path.empty() ? absl::StrFormat("M%.1f %.1f", x, y)
                           : absl::StrFormat(" H%.1f V%.1f", x, y);
    }
    drawPath("bound", "line bound\" stroke-dasharray=\"5 4", path);
  }

  void drawPath(const char *name, const char *look, const std::string &path) {
    text += absl::StrFormat("<path id=\"%s\" class=\"%s\" d=\"", name, look) + path + "\"/>\n";
  }

  void drawDots() {
    for (const FrontierPoint &point : frontier.points)
      text += absl::StrFormat(
          "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s, %.3f %% more "
          "time, at least %.3f %%</title></circle>\n",
          xOf(point.arenaBytes), yOf(extra(point.time)), formatBytesExact(point.arenaBytes),
          extra(point.time), extra(point.bound));
  }

  void drawLegend() {
    const double y = 56;
    struct Entry {
      double x;
      const char *look;
      std::string label;
    };
    const Entry entries[] = {
        {left, "line plan", "plans found"},
        {left + 140, "line bound\" stroke-dasharray=\"5 4", "time of any plan, at least"},
        {left + 360, "line none", "no plan below " + formatBytes(frontier.lowerBound)}};
    for (const Entry &entry : entries) {
      text +=
          absl::StrFormat("<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                          entry.look, entry.x, y, entry.x + 26, y);
      text += absl::StrFormat("<text class=\"small\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                              entry.x + 34, y + 4, entry.label);
    }
  }

  const Frontier &frontier;
  double unitBytes = 1; ///< of the memory axis
  int unit = 0;
  Axis memory{}, time{};
  std::string text;
};

} // namespace

std::string drawFrontier(const Frontier &frontier) { return Picture(frontier).draw(); }

} // namespace stow
