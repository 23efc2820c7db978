#include "probe/aux_loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "nn/moe/router_log.h"

namespace viaduct {
namespace {

/// Sums over tokens and layers: E probabilities, then E numbers of choices.
using RouterSums = std::vector<double>;

std::string packed(const RouterSums& sums) {
  return {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double)};
}

RouterSums unpacked(const std::string& text) {
  RouterSums sums(text.size() / sizeof(double));
  std::memcpy(sums.data(), text.data(), text.size());
  return sums;
}

std::string merged(std::string lower, const std::string& upper) {
  RouterSums sums = unpacked(lower);
  const RouterSums more = unpacked(upper);
  std::ranges::transform(sums, more, sums.begin(), std::plus());
  return packed(sums);
}

/// Turns the logits of a token into its probabilities over all experts.
void to_probabilities(ScoreFunction score, std::span<double> token) {
  const double most = *std::ranges::max_element(token);
  for (double& value : token) {
    switch (score) {
      case ScoreFunction::softmax:
        value = std::exp(value - most);
        break;
      case ScoreFunction::sigmoid:
        value = 1 / (1 + std::exp(-value));
        break;
      case ScoreFunction::sqrt_softplus:
        value = std::sqrt(std::max(value, 0.0) + std::log1p(std::exp(-std::abs(value))));
        break;
    }
  }
  const double sum = std::accumulate(token.begin(), token.end(), 0.0);
  for (double& value : token) value /= sum;
}

/// `T`: the format of logits, float or double.
template <class T>
void add_probabilities_of(ScoreFunction score, const Tensor& logits, RouterSums& sums) {
  const int64_t experts = logits.dim(1);
  std::vector<double> token(static_cast<size_t>(experts));
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    std::copy_n(logits.data<T>() + t * experts, experts, token.begin());
    to_probabilities(score, token);
    for (size_t e = 0; e < token.size(); ++e) sums[e] += token[e];
  }
}

void add_probabilities(ScoreFunction score, const Tensor& logits, RouterSums& sums) {
  if (logits.dtype() == DType::f64) return add_probabilities_of<double>(score, logits, sums);
  add_probabilities_of<float>(score, logits, sums);
}

}  // namespace

double collect_aux_loss(Engine& engine) {
  const ModelConfig& model = engine.model().config();
  const MoeConfig& moe = model.moe;
  const auto experts = static_cast<size_t>(moe.experts);
  RouterSums mine(2 * experts);
  for (const RouterLog::Layer& layer : engine.router_log()->layers()) {
    if (!layer.any || layer.block >= model.layers) continue;  // not of multi-token prediction
    for (const Tensor& logits : layer.logits) add_probabilities(moe.routing.score, logits, mine);
    const Tensor choices = host_tensor(DType::i64, layer.choices.shape());
    engine.device().copy_to_host(layer.choices, choices);
    for (size_t e = 0; e < experts; ++e)
      mine[experts + e] += static_cast<double>(choices.data<int64_t>()[e]);
  }
  const std::string all = engine.groups().world().host().merge_on_rank_0(packed(mine), merged);
  if (all.empty()) return 0;
  const RouterSums sums = unpacked(all);
  const auto choices = sums.begin() + static_cast<int64_t>(experts);
  const double chosen = std::accumulate(choices, sums.end(), 0.0);
  if (chosen == 0) return 0;  // every layer is dense
  const double tokens = chosen / static_cast<double>(std::max<int64_t>(1, moe.routing.topk));
  return static_cast<double>(experts) * std::inner_product(sums.begin(), choices, choices, 0.0) /
         (tokens * tokens);
}

double aux_loss_coefficient(const MoeConfig& moe) {
  if (moe.balance_losses.empty()) return moe.folder_coefficient;
  return std::accumulate(
      moe.balance_losses.begin(), moe.balance_losses.end(), 0.0,
      [](double sum, const BalanceLoss& loss) { return sum + loss.coefficient; });
}

}  // namespace viaduct
