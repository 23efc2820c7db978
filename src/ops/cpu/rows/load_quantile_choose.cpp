// Choice and launch on the cpu of the ops that set a router's bias to a quantile. Tokens first find
// their limits, then each task counts the margins of a few experts: no two tasks write one counter.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/load_quantile.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskLogits = 1 << 14;
constexpr int64_t kTaskExperts = 4;
// Of a logit: two sigmoids, a comparison, and the number of a bin.
constexpr double kFlopsOfLogit = 40;

struct Bins {
  double begin, width, per_value;
};

Bins bins_of(const Tensor& bias, int64_t bins) {
  const auto* b = bias.data<float>();
  const auto [least, most] = std::minmax_element(b, b + bias.elements());
  const double low = static_cast<double>(*least), span = static_cast<double>(*most) - low + 2;
  const auto count = static_cast<double>(bins);
  return {low - 1, span / count, count / span};
}

/// As the choice computes it (routing_choose.cpp).
float score_of(float logit) {
  return 1 / (1 + std::exp(-logit));
}

constexpr float kUncounted = std::numeric_limits<float>::quiet_NaN();  // the limit of a token

/// The next best biased score of a token behind its k chosen ones; kUncounted if a score is NaN.
float limit_of(const float* logits, const float* bias, int64_t topk, std::vector<float>& biased) {
  bool nan = false;
  for (size_t e = 0; e < biased.size(); ++e) {
    biased[e] = score_of(logits[e]) + bias[e];
    nan = nan || std::isnan(biased[e]);
  }
  if (nan) return kUncounted;
  const auto place = biased.begin() + topk;
  std::nth_element(biased.begin(), place, biased.end(), std::greater<>());
  return *place;
}

void launch_count(OpContext& context, const Choice& choice, const CountMarginsArgs& args,
                  void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::count_margins(args);
  const int64_t tokens = args.logits.dim(0), experts = args.logits.dim(1),
                bins = args.histogram.dim(1);
  const auto *logits = args.logits.data<float>(), *bias = args.bias.data<float>();
  auto* const limits = static_cast<float*>(workspace);
  const int64_t step = std::max<int64_t>(1, kTaskLogits / experts);
  context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
    std::vector<float> biased(static_cast<size_t>(experts));
    for (int64_t t = task * step; t < std::min(tokens, (task + 1) * step); ++t) {
      const bool padding = args.token_index && args.token_index.data<int64_t>()[t] < 0;
      limits[t] = padding ? kUncounted : limit_of(logits + t * experts, bias, args.topk, biased);
    }
  });
  const Bins range = bins_of(args.bias, bins);
  const int64_t tasks = (experts + kTaskExperts - 1) / kTaskExperts;
  context.device.pool().run(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kTaskExperts, end = std::min(experts, begin + kTaskExperts);
    auto* const histogram = args.histogram.data<int64_t>();
    if (args.mode == WriteMode::assign)
      std::fill(histogram + begin * bins, histogram + end * bins, 0);
    for (int64_t t = 0; t < tokens; ++t) {
      if (std::isnan(limits[t])) continue;
      for (int64_t e = begin; e < end; ++e) {
        const double margin =
            static_cast<double>(limits[t]) - static_cast<double>(score_of(logits[t * experts + e]));
        const double bin = std::floor((margin - range.begin) * range.per_value);
        const auto last = static_cast<double>(bins - 1);
        ++histogram[e * bins + static_cast<int64_t>(std::clamp(bin, 0.0, last))];
      }
    }
  });
}

/// Where `wanted` of the values of a histogram's row are below, as a place in bins.
double place_of(const int64_t* row, int64_t bins, double wanted) {
  double before = 0;
  for (int64_t i = 0; i < bins; ++i) {
    const auto here = static_cast<double>(row[i]);
    if (before + here >= wanted) return static_cast<double>(i) + (wanted - before) / here;
    before += here;
  }
  return static_cast<double>(bins);
}

void launch_quantile(OpContext& context, const Choice& choice, const QuantileBiasArgs& args,
                     void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::quantile_bias(args);
  const int64_t experts = args.histogram.dim(0), bins = args.histogram.dim(1);
  const Bins range = bins_of(args.bias, bins);
  auto* const quantile = static_cast<double*>(workspace);
  context.device.pool().run(experts, [&](int64_t e, int) {
    const auto* row = args.histogram.data<int64_t>() + e * bins;
    int64_t all = 0;
    for (int64_t i = 0; i < bins; ++i) all += row[i];
    const double share = static_cast<double>(args.topk) / static_cast<double>(experts);
    quantile[e] = all == 0 ? static_cast<double>(args.bias.data<float>()[e])
                           : range.begin + range.width * place_of(row, bins,
                                                                  static_cast<double>(all) * share);
  });
  double mean = 0;  // in one order: the same bits on every rank
  for (int64_t e = 0; e < experts; ++e) mean += quantile[e] / static_cast<double>(experts);
  for (int64_t e = 0; e < experts; ++e)
    args.out.data<float>()[e] = static_cast<float>(quantile[e] - mean);
}

Choice choose_count(const CountMarginsArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("count_margins", args.logits.dtype(), traits, "experts");
  add_flops(choice, args.logits.dtype(),
            kFlopsOfLogit * static_cast<double>(args.logits.elements()));
  choice.cost.bytes_read = 2 * args.logits.bytes() + args.bias.bytes() + bytes_of(args.token_index);
  choice.cost.bytes_written = args.histogram.bytes();
  choice.workspace_bytes = args.logits.dim(0) * static_cast<int64_t>(sizeof(float));
  return choice;
}

Choice choose_quantile(const QuantileBiasArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("quantile_bias", args.bias.dtype(), traits, "experts");
  choice.cost.bytes_read = args.histogram.bytes() + args.bias.bytes();
  choice.cost.bytes_written = args.out.bytes();
  choice.workspace_bytes = args.histogram.dim(0) * static_cast<int64_t>(sizeof(double));
  return choice;
}

}  // namespace

void add_load_quantile(OpTable& table, CpuIsa) {
  table.count_margins = {choose_count, launch_count};
  table.quantile_bias = {choose_quantile, launch_quantile};
}

}  // namespace viaduct::cpu
