#include "plan/rules/thresholds.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace viaduct::rules {
namespace {

constexpr LimitRow kTable[] = {
    {Limit::gain_min, "gain_min", 0.02, "of the step", "minimum gain of advice that is shown",
     "ours"},
    {Limit::gain_interval, "gain_interval", 0.03, "of the step",
     "predictions of two layouts that are closer than this count as equal", "the search's ties"},
    {Limit::exposed_min, "exposed_min", 0.03, "of the step",
     "exposed communication of an axis that is worth an advice", "ours"},
    {Limit::comm_high, "comm_high", 0.30, "of the step", "exposed communication of all axes",
     "benchmark page"},
    {Limit::host_high, "host_high", 0.10, "of the step", "waiting for launches", "ours"},
    {Limit::bubble_high, "bubble_high", 0.05, "of the step",
     "bubble that virtual stages should lower", "ours"},
    {Limit::bubble_low, "bubble_low", 0.02, "of the step",
     "bubble below which fewer virtual stages are tried", "ours"},
    {Limit::bubble_most, "bubble_most", 0.10, "of the step",
     "bubble that calls for more micro-batches", "ours"},
    {Limit::stage_skew, "stage_skew", 0.05, "of the mean",
     "how much longer than the mean the slowest stage computes", "ours"},
    {Limit::head_layers, "head_layers", 0.5, "layers", "size of the output layer against a block",
     "ours"},
    {Limit::encoder_share, "encoder_share", 0.5, "of a stage",
     "compute of an encoder's stage against one of the decoder", "guides"},
    {Limit::ring_bf16, "ring_bf16", 128, "ranks", "ring over which BF16 sums lose accuracy",
     "guides"},
    {Limit::pad_high, "pad_high", 0.10, "of the tokens", "padding of unpacked rows", "ours"},
    {Limit::fit_foreign, "fit_foreign", 0.94, "of the capacity",
     "peak that fits with an allocator that is not planned", "public memory reports"},
    {Limit::fit_tight, "fit_tight", 0.9, "of the capacity", "peak that calls for smaller states",
     "ours"},
    {Limit::fit_loose, "fit_loose", 0.9, "of the capacity",
     "peak below which recomputation may be more than needed", "ours"},
    {Limit::states_high, "states_high", 0.8, "of the capacity",
     "weights, gradients and optimizer state that context ranks cannot lower", "ours"},
    {Limit::product_drop, "product_drop", 0.9, "",
     "rate of a rank's products against half the tensor ranks", "ours"},
    {Limit::product_drop_rows, "product_drop_rows", 0.95, "",
     "rate of a rank's products against twice the rows", "ours"},
    {Limit::gather_small, "gather_small", 0.03, "of a layer",
     "gather of keys and values that is as good as a ring", "ours"},
    {Limit::latency_high, "latency_high", 0.10, "of a collective", "share of latency", "ours"},
    {Limit::bucket_rate, "bucket_rate", 0.8, "of the link rate", "rate that a bucket should reach",
     "ours"},
    {Limit::fp8_gain, "fp8_gain", 1.15, "times", "expected speed of FP8 over BF16", "ours"},
    {Limit::length_long, "length_long", 16384, "tokens", "rows that are called long", "guides"},
    {Limit::row_imbalance, "row_imbalance", 1.05, "times",
     "attention work of the busiest data rank against the mean", "ours"},
    {Limit::steady_steps, "steady_steps", 100, "steps",
     "minimum number of steps behind a published figure", "benchmark page"},
    {Limit::weak_scaling, "weak_scaling", 0.9, "times", "tokens/s a GPU on twice the GPUs", "ours"},
    {Limit::mfu_most, "mfu_most", 0.75, "MFU", "above this a figure is implausible", "ours"},
    {Limit::mfu_least, "mfu_least", 0.02, "MFU", "below this a figure is implausible", "ours"},
    {Limit::figures_apart, "figures_apart", 0.02, "", "difference between figures of one record",
     "ours"},
};
static_assert(std::size(kTable) == kLimits);

}  // namespace

std::span<const LimitRow> limit_table() {
  return kTable;
}

Thresholds::Thresholds() {
  for (const LimitRow& row : kTable) values_[static_cast<size_t>(row.limit)] = row.value;
}

void Thresholds::set(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto row = std::find_if(std::begin(kTable), std::end(kTable),
                                [&](const LimitRow& r) { return r.name == name; });
  if (row == std::end(kTable)) {
    std::vector<std::string> names;
    for (const LimitRow& r : kTable) names.emplace_back(r.name);
    const auto near = nearest_name(name, names);
    fail<ConfigError>("threshold {}: expected NAME=VALUE with a name of viaduct rules{}", text,
                      near ? "; nearest: " + *near : "");
  }
  double value = 0;
  const char* begin =
      equals == std::string::npos ? text.data() + text.size() : text.data() + equals + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, last, value);
  VIADUCT_CHECK(ConfigError,
                begin != last && error == std::errc() && end == last && value > 0 && value < 1e18,
                "threshold {}: expected {}=VALUE with a number above 0, {}", text, name,
                row->meaning);
  values_[static_cast<size_t>(row->limit)] = value;
}

double Thresholds::least_gain() const {
  return std::max((*this)[Limit::gain_min], (*this)[Limit::gain_interval]);
}

}  // namespace viaduct::rules
