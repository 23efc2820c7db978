#include "probe/nan_report.h"

#include <cmath>

#include "nn/moe/router_log.h"

namespace viaduct {
namespace {

bool finite(Device& device, const Tensor& tensor) {
  Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  bool all = true;
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    const auto* values = host.data<decltype(zero)>();
    for (int64_t i = 0; i < host.elements(); ++i)
      all = all && std::isfinite(static_cast<float>(values[i]));
  });
  return all;
}

/// The first of the ranks' findings, with the rank that found it where there are several.
std::string first_found(Communicator& world, const std::string& mine) {
  const auto first = world.host().first_text(mine);
  if (!first) return "";
  return world.size() == 1 ? first->text : fmt::format("rank {}: {}", first->rank, first->text);
}

std::string bad_weight(Engine& engine) {
  BlockCursor cursor(engine.store().offloaded(), BlockCursor::Access::read);
  for (const ShardRun& run : engine.store().shard_runs()) {
    // For masters kept as remainders the weight shows it.
    const Tensor& values = run.master.dtype() == DType::i16 ? run.weight : run.master;
    if (!finite(engine.device(), cursor.at(values))) return "weight " + run.parameter->path;
  }
  return "";
}

/// The first layer whose router made logits that are not finite in the step, as far as this rank
/// knows: its loss of logits is a sum over its tokens.
std::string bad_router(Engine& engine) {
  if (engine.router_log() == nullptr) return "";
  for (const RouterLog::Layer& layer : engine.router_log()->layers()) {
    const Tensor loss = layer.sums.select(0).slice(0, RouterLog::z_loss, 1);
    if (layer.any && !finite(engine.device(), loss))
      return fmt::format("router of layer{} (its logits)", layer.block);
  }
  return "";
}

std::string bad_output(Engine& engine, const HostBatch& rows) {
  std::string found;
  const auto look = [&](const std::string& name, const Tensor& hidden) {
    if (found.empty() && !finite(engine.device(), hidden)) found = "output of " + name;
  };
  engine.forward(
      engine.upload_part(rows), [](const HeadSegment&, const Tensor&) {}, look);
  return found;
}

/// The elements of a main gradient that hold what this rank computed (`reduced` false), or the sum
/// over ranks: its own run.
std::vector<Tensor> elements_of(const ParameterStore& store, const Parameter& parameter,
                                bool reduced) {
  if (!parameter.trained) return {};
  if (store.shards_gradients()) {
    // A rank's own gradients are gone with their reduction.
    const ShardRun* run = store.run_of(parameter);
    if (!reduced || run == nullptr) return {};
    return {run->gradient};
  }
  const Tensor all = store.main_gradient(parameter).view({parameter.shape.elements()});
  const ShardRun* run = store.run_of(parameter);
  const Range own = run != nullptr ? run->range : Range{};
  if (reduced) return {all.slice(0, own.begin, own.size())};
  return {all.slice(0, 0, own.begin), all.slice(0, own.end, all.elements() - own.end)};
}

std::string bad_gradient(Engine& engine, bool reduced) {
  const ParameterStore& store = engine.store();
  const auto& parameters = store.parameters();
  BlockCursor cursor(store.offloaded(), BlockCursor::Access::read);
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    for (const Tensor& elements : elements_of(store, **parameter, reduced)) {
      if (finite(engine.device(), cursor.at(elements))) continue;
      const std::string text = "gradient of " + (*parameter)->path;
      return engine.groups().dp_cp().size() == 1
                 ? text
                 : fmt::format("{} in bucket {}", text, store.bucket_of(**parameter));
    }
  }
  return "";
}

}  // namespace

std::string first_nonfinite(Engine& engine, const HostBatch& rows) {
  Communicator& world = engine.groups().world();
  std::string found = first_found(world, bad_weight(engine));
  // Gradients first: weights of the forward may take their memory (ParameterStore::acquire).
  // A reduced gradient is not finite on every rank if one contribution is not. Before reduction the
  // culprit is visible; check that first.
  std::string gradient;
  if (found.empty()) gradient = first_found(world, bad_gradient(engine, false));
  if (found.empty() && gradient.empty()) gradient = first_found(world, bad_gradient(engine, true));
  if (found.empty()) found = first_found(world, bad_output(engine, rows));
  // A router reads what its layer's attention wrote, so a router that is not finite may not be the
  // cause: the output of the layer stays the answer, and the router is reported with it.
  const std::string router = first_found(world, bad_router(engine));
  if (!router.empty()) found += (found.empty() ? "" : "; ") + router;
  return found.empty() ? gradient : found;
}

}  // namespace viaduct
