#include "report/page/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/units.h"
#include "report/page/chart_parts.h"

namespace viaduct {
namespace {

constexpr double kWidth = 760, kRow = 22;

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return most < least; }
  /// Room for a line that would have no extent.
  void widen() {
    if (empty()) least = 0, most = 1;
    if (most - least > 1e-12 * std::max(std::abs(least), std::abs(most))) return;
    const double room = least == 0 ? 1 : std::abs(least) * 0.1;
    least -= room;
    most += room;
  }
};

/// Maps values to positions in the chart.
struct Scale {
  Range range;
  double from = 0, to = 0;
  double at(double value) const {
    return from + (value - range.least) / (range.most - range.least) * (to - from);
  }
};

/// Through the smallest and the largest point of each column of half a unit, in order of x.
std::vector<Point> thinned(const std::vector<Point>& points, const Scale& x) {
  std::vector<Point> out;
  const auto column = [&](const Point& p) { return static_cast<int64_t>(2 * x.at(p.x)); };
  for (size_t i = 0; i < points.size();) {
    size_t end = i;
    const Point *least = &points[i], *most = &points[i];
    for (; end < points.size() && column(points[end]) == column(points[i]); ++end) {
      if (points[end].y < least->y) least = &points[end];
      if (points[end].y > most->y) most = &points[end];
    }
    const auto [first, second] = std::minmax(least, most);
    out.push_back(*first);
    if (second != first) out.push_back(*second);
    i = end;
  }
  return out;
}

std::string line_of(const Series& series, size_t index, const Scale& x, const Scale& y) {
  std::string out;
  if (series.dots) {
    for (const Point& p : thinned(series.points, x))
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x.at(p.x),
                         y.at(p.y), colour_name(index));
    return out;
  }
  std::string path;
  for (const Point& p : thinned(series.points, x))
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x.at(p.x), y.at(p.y));
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", path,
                     colour_name(index), series.faint ? "0.8\" stroke-opacity=\"0.4" : "1.5");
}

std::string horizontal(double x1, double x2, double y, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, x2,
                     y, y, style);
}

std::string vertical(double x, double y1, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" {3}/>\n", x,
                     y1, y2, style);
}

constexpr std::string_view kGrid = "stroke=\"var(--line)\"";
constexpr std::string_view kLimit = "stroke=\"var(--warning)\" stroke-dasharray=\"5 4\"";
constexpr std::string_view kMark = "stroke=\"var(--faint)\" stroke-dasharray=\"2 3\"";

}  // namespace

Series smoothed(const Series& series) {
  constexpr size_t kFewest = 50, kPart = 50;
  Series mean{series.name + ", smoothed", {}};
  std::vector<Point> points;
  for (const Point& p : series.points)
    if (std::isfinite(p.y)) points.push_back(p);
  if (points.size() < kFewest) return mean;
  const size_t half = std::max<size_t>(2, points.size() / kPart / 2);
  std::vector<double> sums{0};
  for (const Point& p : points) sums.push_back(sums.back() + p.y);
  for (size_t i = 0; i < points.size(); ++i) {
    // As many on both sides, so that the ends are not moved.
    const size_t reach = std::min({half, i, points.size() - 1 - i});
    const double sum = sums[i + reach + 1] - sums[i - reach];
    mean.points.push_back({points[i].x, sum / static_cast<double>(2 * reach + 1)});
  }
  return mean;
}

std::string draw(const LineChart& chart) {
  constexpr double kLeft = 74, kRight = 14, kTop = 24, kHeight = 190;
  std::vector<Series> shown;
  std::vector<std::string> names;
  Scale x{{}, kLeft, kWidth - kRight}, y{{}, kTop + kHeight, kTop};
  for (const Series& series : chart.series) {
    Series finite{series.name, {}, series.dots, series.faint};
    for (const Point& p : series.points) {
      if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
      finite.points.push_back(p);
      x.range.take(p.x);
      y.range.take(p.y);
    }
    names.push_back(series.name);
    shown.push_back(std::move(finite));
  }
  for (const auto& [name, value] : chart.limits) y.range.take(value);
  if (chart.from_zero) y.range.take(0);
  x.range.widen();
  y.range.widen();
  std::string body = svg_text(kLeft, 12, "start", chart.y_name);
  for (const double tick : round_ticks(y.range.least, y.range.most, 5, chart.bytes)) {
    body += horizontal(kLeft, kWidth - kRight, y.at(tick), kGrid);
    body += svg_text(kLeft - 6, y.at(tick) + 4, "end", tick_text(tick, chart.bytes));
  }
  for (const double tick : round_ticks(x.range.least, x.range.most, 8))
    body += svg_text(x.at(tick), kTop + kHeight + 16, x.at(tick) > kWidth - 40 ? "end" : "middle",
                     tick_text(tick));
  body += svg_text(kWidth - kRight, kTop + kHeight + 32, "end", chart.x_name);
  double free_from = kLeft;  // names of marks that would cover each other are left out
  for (const auto& [name, value] : chart.marks) {
    if (value < x.range.least || value > x.range.most) continue;
    body += vertical(x.at(value), kTop, kTop + kHeight, kMark);
    if (x.at(value) < free_from) continue;
    const bool left = x.at(value) < kWidth / 2;
    body += svg_text(x.at(value) + (left ? 3 : -3), kTop + 10, left ? "start" : "end", name);
    free_from = x.at(value) + 7 * static_cast<double>(name.size());
  }
  for (const auto& [name, value] : chart.limits) {
    body += horizontal(kLeft, kWidth - kRight, y.at(value), kLimit);
    body += svg_text(kWidth - kRight, y.at(value) - 4, "end", name);
  }
  for (size_t i = 0; i < shown.size(); ++i) body += line_of(shown[i], i, x, y);
  double legend = 0;
  if (names.size() > 1)
    body += svg_legend(names, kLeft, kTop + kHeight + 24, kWidth - kLeft - 140, legend);
  return svg_element(kWidth, kTop + kHeight + std::max(40.0, 28 + legend), chart.label, body);
}

std::string draw(const BarChart& chart) {
  constexpr double kLeft = 190, kRight = 130;
  double most = chart.limit;
  for (const BarChart::Bar& bar : chart.bars) {
    double sum = 0;
    for (const double value : bar.values) sum += value;
    most = std::max(most, sum);
  }
  if (most <= 0) most = 1;
  const double per = (kWidth - kLeft - kRight) / most;
  double legend = 0;
  std::string body = svg_legend(chart.parts, 0, 4, kWidth, legend);
  const double top = legend + 14;
  double y = top;
  for (const BarChart::Bar& bar : chart.bars) {
    body += svg_text(kLeft - 8, y + 13, "end", bar.name, true);
    double at = kLeft;
    for (size_t part = 0; part < bar.values.size(); ++part) {
      const double width = bar.values[part] * per;
      if (width > 0.05)
        body += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"/>\n", at, y,
            width, colour_name(part));
      at += width;
    }
    body += svg_text(at + 6, y + 13, "start", bar.total, true);
    y += kRow;
  }
  if (chart.limit > 0) {
    body += vertical(kLeft + chart.limit * per, top - 4, y, kLimit);
    body += svg_text(kLeft + chart.limit * per, y + 12, "end", chart.limit_name);
    y += 14;
  }
  return svg_element(kWidth, y + 6, chart.label, body);
}

std::string draw(const SpanChart& chart) {
  constexpr double kLeft = 74, kRight = 14;
  double legend = 0;
  std::string body = svg_legend(chart.kinds, kLeft, 4, kWidth - kLeft, legend);
  const double top = legend + 12;
  const Scale x{{0, chart.end > 0 ? chart.end : 1}, kLeft, kWidth - kRight};
  double y = top;
  for (const auto& [name, spans] : chart.rows) {
    body += svg_text(kLeft - 8, y + 13, "end", name, true);
    // Neighbours of one kind are one shape: a row has at most one shape per half unit.
    std::optional<SpanChart::Span> open;
    const auto put = [&] {
      if (!open) return;
      body += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"/>\n",
          x.at(open->begin), y, std::max(0.4, x.at(open->end) - x.at(open->begin) - 0.4),
          colour_name(static_cast<size_t>(open->kind)));
    };
    for (const SpanChart::Span& span : spans) {
      if (open && open->kind == span.kind && x.at(span.end) - x.at(open->begin) < 0.5) {
        open->end = std::max(open->end, span.end);
        continue;
      }
      put();
      open = span;
    }
    put();
    y += kRow;
  }
  for (const double tick : round_ticks(0, x.range.most, 8)) {
    body += vertical(x.at(tick), top - 2, y, kGrid);
    body += svg_text(x.at(tick), y + 14, x.at(tick) > kWidth - 40 ? "end" : "middle",
                     tick == 0 ? "0" : format_seconds(tick));
  }
  return svg_element(kWidth, y + 20, chart.label, body);
}

}  // namespace viaduct
