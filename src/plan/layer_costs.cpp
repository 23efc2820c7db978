#include "plan/layer_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "device/memory_tag.h"
#include "plan/op_time.h"

namespace viaduct {
namespace {

/// One rank for everything, nothing sharded.
const std::vector<std::string> kUnsharded{"ddp.use_distributed_optimizer=false",
                                          "ddp.data_parallel_sharding_strategy=no_shard"};

std::vector<std::string> on_ranks(int64_t ranks, int64_t rows) {
  std::vector<std::string> overrides = kUnsharded;
  overrides.push_back(fmt::format("dist.ranks={}", ranks));
  overrides.push_back(fmt::format("train.global_batch_size={}", rows));
  for (const char* field :
       {"model.account_for_embedding_in_pipeline_split=false",
        "model.account_for_loss_in_pipeline_split=false",
        "model.num_layers_in_first_pipeline_stage=null",
        "model.num_layers_in_last_pipeline_stage=null", "model.pipeline_model_parallel_layout=null",
        "model.microbatch_group_size_per_vp_stage=null", "train.rampup_batch_size=null"})
    overrides.emplace_back(field);
  return overrides;
}

double bytes_of(const DryRun& run, MemoryTag tag) {
  const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
  return found == run.peak.bytes_by_tag.end() ? 0 : static_cast<double>(found->second);
}

/// Bytes of weights, gradients and optimizer state of a rank.
StateBytes states_of(const DryRun& run) {
  return {bytes_of(run, MemoryTag::weights), bytes_of(run, MemoryTag::main_gradients),
          bytes_of(run, MemoryTag::master_weights) + bytes_of(run, MemoryTag::moments)};
}

bool same_layers(const ModelConfig& model) {
  if (model.moe.any() || model.mtp_layers > 0) return false;
  return std::adjacent_find(model.windows.begin(), model.windows.end(), std::not_equal_to<>()) ==
         model.windows.end();
}

/// A dry run with the seconds of the ops of its compute stream.
struct MeasuredRun {
  DryRun run;
  double batch_seconds = 0;   // of its micro-batch
  double update_seconds = 0;  // of the optimizer
};

/// Ops alone: what communication adds depends on what else runs, and what is done once a step is
/// no micro-batch's.
MeasuredRun measure(const RunSetup& setup, const PlanRequest& request) {
  StepRecord record;
  MeasuredRun measured{dry_run(setup, {0}, &record)};
  const SequenceWindow& step = measured.run.windows[static_cast<size_t>(MemorySequence::step)];
  const OpTime time(request.cluster.gpu, request.prediction.ops);
  const double share = request.prediction.spec_sheet ? 1 : request.cluster.gpu.step_share;
  for (const OpEntryRecord& op : record.ops()) {
    if (op.stream != 0 || op.at < step.begin || op.at >= step.end) continue;
    for (int64_t scope = op.scope; scope >= 0;) {
      const ScopeRecord& around = record.scopes()[static_cast<size_t>(scope)];
      if (around.micro_batch >= 0) measured.batch_seconds += time.seconds(op) / share;
      if (around.name == "optimizer") measured.update_seconds += time.seconds(op) / share;
      if (around.micro_batch >= 0 || around.name == "optimizer") break;
      scope = around.parent;
    }
  }
  return measured;
}

/// The dry run of the whole model; ConfigError where an op of it has no kernel on the cluster's
/// GPU.
DryRun run_of_whole(const RunSetup& whole, const Cluster& cluster) {
  try {
    return dry_run(whole);
  } catch (const DeviceError& error) {
    fail<ConfigError>("viaduct plan: the model cannot be planned on {}: {}", cluster.gpu.name,
                      error.what());
  }
}

}  // namespace

RunSetup setup_of_layout(const PlanRequest& request, const Layout& layout,
                         const std::vector<std::string>& further) {
  std::vector<std::string> overrides = request.overrides;
  const std::vector<std::string> fields = overrides_of(layout);
  overrides.insert(overrides.end(), fields.begin(), fields.end());
  overrides.insert(overrides.end(), further.begin(), further.end());
  RunConfig defaults;
  defaults.cuda_target = request.cluster.gpu.architecture;
  return prepare_run(load_run_config(request.file, overrides, defaults));
}

LayerCosts::LayerCosts(const PlanRequest& request) : request_(request) {
  VIADUCT_CHECK(ConfigError, request.cluster.gpu.has_kernels(),
                "cluster {}: there are no kernels for GPU {}; GPUs with an architecture in "
                "hardware/gpus.yaml have some",
                request.cluster.name, request.cluster.gpu.name);
  std::vector<std::string> overrides = on_ranks(1, 1);
  for (const char* field : {"context_parallel_size=1", "expert_model_parallel_size=1"})
    overrides.push_back(std::string("model.") + field);
  whole_ = setup_of_layout(request, {.recompute = Recompute::given}, overrides);
  const DryRun run = run_of_whole(whole_, request.cluster);
  const StateBytes held = states_of(run);
  model_.layers = whole_.model.layers;
  model_.parameters = static_cast<double>(run.parameters);
  model_.bytes = {held.weights / model_.parameters, held.gradients / model_.parameters,
                  held.optimizer / model_.parameters};
  layers_alike_ = same_layers(whole_.model);
}

const LayerCost& LayerCosts::of(const Layout& layout) {
  const auto [entry, is_new] =
      made_.try_emplace({layout.tp, layout.cp, layout.micro_batch, layout.recompute}, LayerCost());
  LayerCost& cost = entry->second;
  if (!is_new) return cost;
  cost = make(layout);
  if (!cost.known || layout.recompute == Recompute::none) return cost;
  // What is made again is counted apart, for not every layer's is.
  Layout kept = layout;
  kept.recompute = Recompute::none;
  const LayerCost& without = of(kept);
  cost.known = without.known;
  cost.again_seconds = std::max(0.0, cost.layer_seconds - without.layer_seconds);
  cost.layer_seconds = std::min(cost.layer_seconds, without.layer_seconds);
  cost.end_seconds = without.end_seconds;
  return cost;
}

LayerCost LayerCosts::make(const Layout& layout, const std::vector<std::string>& overrides) const {
  LayerCost cost;
  if (!layers_alike_ || model_.layers < 2) return cost;
  Layout one = layout;
  one.pp = one.vpp = one.dp = 1, one.micro_batches = 1, one.sharding = Sharding::given;
  std::array<MeasuredRun, 2> of_layers;
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::string> further = on_ranks(layout.tp * layout.cp, layout.micro_batch);
    further.push_back(fmt::format("model.num_layers={}", i + 1));
    further.insert(further.end(), overrides.begin(), overrides.end());
    try {
      of_layers[i] = measure(setup_of_layout(request_, one, further), request_);
    } catch (const ConfigError&) {
      return cost;  // the layout itself is refused with the reason, or bounded by the whole model
    }
  }
  const MeasuredRun &a = of_layers[0], &b = of_layers[1];
  const StateBytes one_layer = states_of(a.run), two_layers = states_of(b.run);
  const auto sum = [](const StateBytes& s) { return s.weights + s.gradients + s.optimizer; };
  const double layer_state = sum(two_layers) - sum(one_layer);
  const auto peak_a = static_cast<double>(a.run.peak.bytes),
             peak_b = static_cast<double>(b.run.peak.bytes);
  cost.known = true;
  // A rank holds its share of each logical tensor: bytes tell how much.
  const double per_parameter = model_.bytes.weights;
  cost.layer_parameters = (two_layers.weights - one_layer.weights) / per_parameter;
  cost.end_parameters = one_layer.weights / per_parameter - cost.layer_parameters;
  cost.layer_seconds = b.batch_seconds - a.batch_seconds;
  cost.end_seconds = std::max(0.0, a.batch_seconds - cost.layer_seconds);
  cost.layer_update_seconds = std::max(0.0, b.update_seconds - a.update_seconds);
  cost.layer_kept_bytes = std::max(0.0, peak_b - peak_a - layer_state);
  cost.other_bytes = std::max(0.0, peak_a - sum(one_layer) - cost.layer_kept_bytes);
  const OffloadConfig& offload = whole_.config.offload;
  // What leaves for another memory differs between the layers.
  if (offload.cpu_offloading || offload.fine_grained_activation_offloading)
    cost.layer_kept_bytes = cost.other_bytes = 0;
  const RecomputeConfig& recompute = whole_.config.recompute;
  cost.keeps_alike = !recompute.num_microbatches_with_partial_activation_checkpoints.has_value();
  return cost;
}

}  // namespace viaduct
