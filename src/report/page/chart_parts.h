#pragma once
// What all charts share: the element around them, texts, legends, and round numbers for axes.

#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// Colours of the page for the kinds of a chart; further kinds repeat them.
inline constexpr size_t kChartColours = 12;
std::string colour_name(size_t index);

/// An <svg> element of this size in units, with `label` for readers who do not see it.
std::string svg_element(double width, double height, std::string_view label, std::string_view body);
/// `anchor`: start, middle or end.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view text,
                     bool ink = false);
/// Squares with names from `x` on; continues on further lines of 16 units where `width` ends.
/// Returns the height that it takes, in `height`.
std::string svg_legend(const std::vector<std::string>& names, double x, double y, double width,
                       double& height);

/// Round values from the smallest multiple at or above `least` to `most`, about `count` of them;
/// multiples of 1, 2 or 5 times a power of ten (where `bytes`, of a power of two).
std::vector<double> round_ticks(double least, double most, int count, bool bytes = false);
/// "1,200", "0.0025", "3e-05"; "1.5 GiB" where `bytes`.
std::string tick_text(double value, bool bytes = false);

}  // namespace viaduct
