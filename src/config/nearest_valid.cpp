#include "config/nearest_valid.h"

#include <fmt/core.h>

#include <algorithm>

namespace viaduct {
namespace {

constexpr int64_t kFarthest = 2'000'000;  // bounds the search for hostile sizes

std::string either(int64_t below, int64_t above) {
  if (below > 0 && above > 0 && below != above) return fmt::format("{} or {}", below, above);
  if (below > 0 || above > 0) return fmt::format("{}", std::max(below, above));
  return "none";
}

}  // namespace

std::string nearest_valid(int64_t value, FunctionRef<bool(int64_t)> valid, int64_t most) {
  int64_t below = std::min(value, most), above = std::max<int64_t>(value, 1);
  const int64_t lowest = std::max<int64_t>(1, below - kFarthest);
  const int64_t highest = std::min(most, above + kFarthest);
  while (below >= lowest && !valid(below)) --below;
  while (above <= highest && !valid(above)) ++above;
  return either(below >= lowest ? below : 0, above <= highest ? above : 0);
}

std::string nearest_multiple(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  return either(below, below == value ? below : below + step);
}

std::string nearest_divisor(int64_t value, int64_t number) {
  return nearest_valid(
      value, [&](int64_t n) { return number % n == 0; }, number);
}

}  // namespace viaduct
