#include "config/nearest_valid.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace viaduct {
namespace {

constexpr int64_t kFarthest = 2'000'000;  // bounds the search for hostile sizes

std::string either(int64_t below, int64_t above) {
  if (below > 0 && above > 0 && below != above) return fmt::format("{} or {}", below, above);
  if (below > 0 || above > 0) return fmt::format("{}", std::max(below, above));
  return "none";
}

/// The first valid number on the way from `from` to `last` in steps of 1 or −1; 0: none.
int64_t first_valid(int64_t from, int64_t last, int64_t step, FunctionRef<bool(int64_t)> valid) {
  if ((last - from) * step < 0) return 0;
  for (int64_t n = from;; n += step) {
    if (valid(n)) return n;
    if (n == last) return 0;
  }
}

}  // namespace

std::string nearest_valid(int64_t value, FunctionRef<bool(int64_t)> valid, int64_t most) {
  const int64_t below = std::min(std::max<int64_t>(value, 0), most),
                above = std::max<int64_t>(value, 1);
  // No sum of `value` and kFarthest: it may be any number.
  const int64_t lowest = below > kFarthest ? below - kFarthest : 1;
  const int64_t highest = above < most - kFarthest ? above + kFarthest : most;
  return either(first_valid(below, lowest, -1, valid), first_valid(above, highest, 1, valid));
}

std::string nearest_multiple(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  const bool has_next = below <= std::numeric_limits<int64_t>::max() - step;
  return either(below, below == value ? below : has_next ? below + step : 0);
}

std::string nearest_divisor(int64_t value, int64_t number) {
  return nearest_valid(
      value, [&](int64_t n) { return number % n == 0; }, number);
}

}  // namespace viaduct
