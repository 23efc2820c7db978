#include "base/units.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace viaduct {
namespace {

std::string scaled(double value, double base, const char* const* suffixes, int count,
                   const char* separator) {
  int step = 0;
  while (std::abs(value) >= base && step + 1 < count) value /= base, ++step;
  if (step == 0) return fmt::format("{:.0f}{}{}", value, separator, suffixes[0]);
  return fmt::format("{:.{}f}{}{}", value, std::abs(value) < 10 ? 2 : 1, separator, suffixes[step]);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kSuffixes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, kSuffixes, 6, " ");
}

std::string format_count(double count) {
  static constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T", "P"};
  return scaled(count, 1000, kSuffixes, 6, "");
}

std::string counted(int64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string format_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string transfer_text(int64_t bytes, double seconds) {
  const double rate = static_cast<double>(bytes) / std::max(seconds, 1e-9);
  return fmt::format(" ({} in {}, {}/s)", format_bytes(bytes), format_seconds(seconds),
                     format_bytes(static_cast<int64_t>(rate)));
}

}  // namespace viaduct
