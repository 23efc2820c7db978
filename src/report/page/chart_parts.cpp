#include "report/page/chart_parts.h"

#include <fmt/format.h>

#include <cmath>

#include "base/markup.h"
#include "base/units.h"

namespace viaduct {

std::string colour_name(size_t index) {
  return fmt::format("var(--c{})", index % kChartColours);
}

std::string svg_element(double width, double height, std::string_view label,
                        std::string_view body) {
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "aria-label=\"{2}\">\n{3}</svg>\n",
      width, height, escaped_markup(label), body);
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view text, bool ink) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, ink ? " class=\"ink\"" : "", escaped_markup(text));
}

std::string svg_legend(const std::vector<std::string>& names, double x, double y, double width,
                       double& height) {
  constexpr double kLetter = 6.2, kLine = 16;
  std::string out;
  double at = x, line = y;
  for (size_t i = 0; i < names.size(); ++i) {
    const double needs = 26 + kLetter * static_cast<double>(names[i].size());
    if (at > x && at + needs > x + width) {
      at = x;
      line += kLine;
    }
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                       at, line, colour_name(i));
    out += svg_text(at + 14, line + 9, "start", names[i]);
    at += needs;
  }
  height = names.empty() ? 0 : line + kLine - y;
  return out;
}

std::vector<double> round_ticks(double least, double most, int count, bool bytes) {
  const double range = most - least;
  if (!(range > 0) || !std::isfinite(range)) return {least};
  double step = bytes ? std::exp2(std::floor(std::log2(range / count)))
                      : std::pow(10, std::floor(std::log10(range / count)));
  for (int i = 0; range / step > count; ++i) step *= bytes || i % 3 != 1 ? 2 : 2.5;  // 1, 2, 5, 10
  std::vector<double> ticks;
  for (double k = std::ceil(least / step - 1e-9); k * step <= most * (1 + 1e-12) + step * 1e-9; ++k)
    ticks.push_back(k * step);
  return ticks;
}

std::string tick_text(double value, bool bytes) {
  if (bytes) return format_bytes(static_cast<int64_t>(value));
  const double size = std::abs(value);
  if (size >= 1e6) return format_count(value);
  if (size >= 1000 && value == std::round(value)) {
    std::string digits = fmt::format("{:.0f}", value);
    for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
      digits.insert(static_cast<size_t>(at), ",");
    return digits;
  }
  return fmt::format("{:.4g}", size < 1e-12 ? 0.0 : value);
}

}  // namespace viaduct
