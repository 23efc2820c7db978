#include "ops/load_quantile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

/// Where a histogram's bins are.
struct Bins {
  double begin, width, per_value;
};

Bins bins_of(const Tensor& bias, int64_t bins) {
  const auto* b = bias.data<double>();
  const auto [least, most] = std::minmax_element(b, b + bias.elements());
  const double span = *most - *least + 2, count = static_cast<double>(bins);
  return {*least - 1, span / count, count / span};
}

}  // namespace

void count_margins(const CountMarginsArgs& args) {
  const int64_t tokens = args.logits.dim(0), experts = args.logits.dim(1),
                bins = args.histogram.dim(1);
  const auto* bias = args.bias.data<double>();
  auto* histogram = args.histogram.data<int64_t>();
  const Bins range = bins_of(args.bias, bins);
  std::vector<double> score(static_cast<size_t>(experts)), biased(score.size());
  if (args.mode == WriteMode::assign) std::fill_n(histogram, experts * bins, 0);
  for (int64_t t = 0; t < tokens; ++t) {
    if (args.token_index && args.token_index.data<int64_t>()[t] < 0) continue;
    for (size_t e = 0; e < score.size(); ++e) {
      const double logit = args.logits.data<double>()[t * experts + static_cast<int64_t>(e)];
      score[e] = 1 / (1 + std::exp(-logit));
      biased[e] = score[e] + bias[e];
    }
    if (std::ranges::any_of(biased, [](double x) { return std::isnan(x); })) continue;
    std::ranges::sort(biased, std::greater<>());
    const double limit = biased[static_cast<size_t>(args.topk)];
    for (int64_t e = 0; e < experts; ++e) {
      const double margin = limit - score[static_cast<size_t>(e)];
      const double bin = std::floor((margin - range.begin) * range.per_value);
      ++histogram[e * bins +
                  static_cast<int64_t>(std::clamp(bin, 0.0, static_cast<double>(bins - 1)))];
    }
  }
}

void quantile_bias(const QuantileBiasArgs& args) {
  const int64_t experts = args.histogram.dim(0), bins = args.histogram.dim(1);
  const Bins range = bins_of(args.bias, bins);
  const double share = static_cast<double>(args.topk) / static_cast<double>(experts);
  auto* out = args.out.data<double>();
  double mean = 0;
  std::vector<double> quantile(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e) {
    const auto* row = args.histogram.data<int64_t>() + e * bins;
    const auto all = static_cast<double>(std::accumulate(row, row + bins, int64_t{0}));
    double& value = quantile[static_cast<size_t>(e)];
    value = args.bias.data<double>()[e];
    double before = 0;
    for (int64_t i = 0; i < bins && all > 0; ++i) {
      const auto here = static_cast<double>(row[i]);
      if (before + here >= all * share) {
        const double place = static_cast<double>(i) + (all * share - before) / here;
        value = range.begin + range.width * place;
        break;
      }
      before += here;
    }
    mean += value / static_cast<double>(experts);
  }
  for (int64_t e = 0; e < experts; ++e) out[e] = quantile[static_cast<size_t>(e)] - mean;
}

}  // namespace viaduct::reference
