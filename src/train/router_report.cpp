#include "train/router_report.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "nn/moe/router_log.h"

namespace viaduct {
namespace {

/// A layer's part of the report as numbers that are added over ranks, and the limits of its bias.
struct LayerSums {
  // RouterLog::kSums, all rows (0: they are not filled up) and those of no choice, then choices and
  // kept choices of each expert.
  std::vector<double> sums;
  double least_bias = std::numeric_limits<double>::infinity();
  double most_bias = -std::numeric_limits<double>::infinity();
};
constexpr int64_t kRows = RouterLog::kSums, kCounts = kRows + 2;
using SumsByLayer = std::map<int64_t, LayerSums>;

void append(std::string& text, double value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string packed(const SumsByLayer& layers) {
  std::string text;
  for (const auto& [layer, of] : layers) {
    append(text, static_cast<double>(layer));
    append(text, static_cast<double>(of.sums.size()));
    append(text, of.least_bias);
    append(text, of.most_bias);
    for (const double value : of.sums) append(text, value);
  }
  return text;
}

SumsByLayer unpacked(const std::string& text) {
  SumsByLayer layers;
  const char* next = text.data();
  const auto number = [&] {
    double value = 0;
    std::memcpy(&value, next, sizeof value);
    next += sizeof value;
    return value;
  };
  while (next != text.data() + text.size()) {
    LayerSums& of = layers[static_cast<int64_t>(number())];
    of.sums.resize(static_cast<size_t>(number()));
    of.least_bias = number(), of.most_bias = number();
    for (double& value : of.sums) value = number();
  }
  return layers;
}

std::string merged(std::string lower, const std::string& upper) {
  SumsByLayer layers = unpacked(lower);
  for (const auto& [layer, more] : unpacked(upper)) {
    const auto [at, first] = layers.try_emplace(layer, more);
    if (first) continue;
    LayerSums& of = at->second;
    of.sums.resize(std::max(of.sums.size(), more.sums.size()));
    for (size_t i = 0; i < more.sums.size(); ++i) of.sums[i] += more.sums[i];
    of.least_bias = std::min(of.least_bias, more.least_bias);
    of.most_bias = std::max(of.most_bias, more.most_bias);
  }
  return packed(layers);
}

template <class T>
void append_values(Device& device, const Tensor& tensor, std::vector<double>& values) {
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  for (int64_t i = 0; i < host.elements(); ++i)
    values.push_back(static_cast<double>(host.data<T>()[i]));
}

/// The global number of the layer that has a router's parameter "blocks.3.mlp.router…".
int64_t layer_of(const Parameter& parameter) {
  return std::stoll(parameter.path.substr(parameter.path.find('.') + 1));
}

void take_biases(Engine& engine, SumsByLayer& layers) {
  BlockCursor cursor(engine.store().offloaded(), BlockCursor::Access::read);
  for (const ShardRun& run : engine.store().shard_runs()) {
    if (!run.parameter->load_bias_rate) continue;
    std::vector<double> values;
    const Tensor master = cursor.at(run.master);
    if (master.dtype() == DType::f64) {
      append_values<double>(engine.device(), master, values);
    } else {
      append_values<float>(engine.device(), master, values);
    }
    LayerSums& of = layers[layer_of(*run.parameter)];
    for (const double value : values) {
      of.least_bias = std::min(of.least_bias, value);
      of.most_bias = std::max(of.most_bias, value);
    }
  }
}

/// The mean of a layer's balancing losses by their coefficients; `sums` has a row of each.
double mean_balance_loss(const std::vector<double>& sums, const std::vector<BalanceLoss>& losses) {
  double sum = 0, weight = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i].coefficient * sums[i * RouterLog::kSums + RouterLog::balance_loss];
    weight += losses[i].coefficient;
  }
  return sum / weight;
}

LayerRouting routing_of(int64_t layer, const LayerSums& of, const MoeConfig& moe) {
  const auto experts = static_cast<int64_t>(of.sums.size() - kCounts) / 2;
  const auto choices = of.sums.begin() + kCounts;
  const double all = std::accumulate(choices, choices + experts, 0.0);
  const double kept = std::accumulate(choices + experts, choices + 2 * experts, 0.0);
  const double tokens = std::max(1.0, all / static_cast<double>(moe.routing.topk));
  LayerRouting routing;
  routing.layer = layer;
  for (int64_t e = 0; e < experts; ++e)
    routing.load.push_back(choices[e] * static_cast<double>(experts) / std::max(1.0, all));
  routing.entropy = of.sums[RouterLog::entropy] / tokens;
  routing.dropped = (all - kept) / std::max(1.0, all);
  if (const double rows = of.sums[kRows]; rows > 0) routing.padded = of.sums[kRows + 1] / rows;
  if (!moe.balance_losses.empty()) routing.balance_loss = of.sums[RouterLog::balance_loss] / tokens;
  routing.z_loss = of.sums[RouterLog::z_loss] / tokens;
  if (of.most_bias >= of.least_bias) routing.bias_spread = of.most_bias - of.least_bias;
  return routing;
}

}  // namespace

std::vector<LayerRouting> collect_routing(Engine& engine) {
  const MoeConfig& moe = engine.model().config().moe;
  if (!moe.any()) return {};
  SumsByLayer mine;
  if (RouterLog* log = engine.router_log()) {
    for (const RouterLog::Layer& layer : log->layers()) {
      if (!layer.any) continue;
      std::vector<double>& sums = mine[layer.block].sums;
      append_values<double>(engine.device(), layer.sums, sums);
      if (!moe.balance_losses.empty())
        sums[RouterLog::balance_loss] = mean_balance_loss(sums, moe.balance_losses);
      sums.resize(kCounts);
      append_values<int64_t>(engine.device(), layer.choices, sums);
      const auto kept = static_cast<int64_t>(sums.size());
      append_values<int64_t>(engine.device(), layer.kept, sums);
      if (!layer.any_rows) continue;
      std::vector<double> rows;
      append_values<int64_t>(engine.device(), layer.rows, rows);
      sums[kRows] = rows.front();
      sums[kRows + 1] = rows.front() - static_cast<double>(layer.copies) *
                                           std::accumulate(sums.begin() + kept, sums.end(), 0.0);
    }
    if (moe.load_bias) take_biases(engine, mine);
  }
  const std::string all = engine.groups().world().host().merge_on_rank_0(packed(mine), merged);
  std::vector<LayerRouting> report;
  for (const auto& [layer, of] : unpacked(all))
    if (!of.sums.empty()) report.push_back(routing_of(layer, of, moe));
  return report;
}

}  // namespace viaduct
