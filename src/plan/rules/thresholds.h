#pragma once
// The numbers that the rules compare with, in one table: where each is from, and a name by which a
// user may set it.

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace viaduct::rules {

enum class Limit {
  gain_min,
  gain_interval,
  exposed_min,
  comm_high,
  host_high,
  bubble_high,
  bubble_low,
  bubble_most,
  stage_skew,
  head_layers,
  encoder_share,
  ring_bf16,
  pad_high,
  fit_foreign,
  fit_tight,
  fit_loose,
  states_high,
  product_drop,
  product_drop_rows,
  gather_small,
  latency_high,
  bucket_rate,
  fp8_gain,
  length_long,
  row_imbalance,
  steady_steps,
  weak_scaling,
  mfu_most,
  mfu_least,
  figures_apart,
};
inline constexpr int kLimits = 30;

struct LimitRow {
  Limit limit = Limit::gain_min;
  std::string_view name;  // of --threshold NAME=VALUE
  double value = 0;
  std::string_view unit;
  std::string_view meaning;
  std::string_view source;  // "ours": not calibrated
};

/// One row for each limit, in the order of the enumeration.
std::span<const LimitRow> limit_table();

/// The values of the table, some of them replaced. A value.
class Thresholds {
 public:
  Thresholds();
  double operator[](Limit limit) const { return values_[static_cast<size_t>(limit)]; }
  /// "NAME=VALUE". ConfigError for unknown names (with the nearest) and for values that are not
  /// numbers above 0.
  void set(const std::string& text);
  /// The minimum share of a step that a change must save.
  double least_gain() const;

 private:
  std::array<double, kLimits> values_{};
};

}  // namespace viaduct::rules
