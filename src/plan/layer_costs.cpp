#include "plan/layer_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "plan/measured_run.h"

namespace viaduct {
namespace {

/// `sharded`: optimizer state is sharded over the ranks, else nothing is.
std::vector<std::string> on_ranks(int64_t ranks, int64_t rows, bool sharded) {
  std::vector<std::string> overrides{
      fmt::format("ddp.use_distributed_optimizer={}", sharded),
      fmt::format("ddp.data_parallel_sharding_strategy={}", sharded ? "optim" : "no_shard")};
  overrides.push_back(fmt::format("dist.ranks={}", ranks));
  overrides.push_back(fmt::format("train.global_batch_size={}", rows));
  for (const char* field :
       {"model.account_for_embedding_in_pipeline_split=false",
        "model.account_for_loss_in_pipeline_split=false",
        "model.num_layers_in_first_pipeline_stage=null",
        "model.num_layers_in_last_pipeline_stage=null", "model.pipeline_model_parallel_layout=null",
        "model.microbatch_group_size_per_vp_stage=null", "train.rampup_batch_size=null",
        "model.encoder_pipeline_model_parallel_size=0",
        "model.encoder_tensor_model_parallel_size=0",
        // One micro-batch of one stage has no other one beside it.
        "model.pipeline_schedule=1f1b", "comm_overlap.overlap_moe_expert_parallel_comm=false",
        "comm_overlap.delay_wgrad_compute=false"})
    overrides.emplace_back(field);
  return overrides;
}

/// Bytes of weights, gradients and optimizer state of a rank.
StateBytes states_of(const DryRun& run) {
  return {peak_bytes_of(run, MemoryTag::weights), peak_bytes_of(run, MemoryTag::main_gradients),
          peak_bytes_of(run, MemoryTag::master_weights) + peak_bytes_of(run, MemoryTag::moments)};
}

// States do not depend on the length of rows. Longer ones would only take time.
constexpr int64_t kTokensOfWhole = 8192;

/// The dry run of the whole model, for its states; ConfigError where an op of it has no kernel on
/// the cluster's GPU.
DryRun run_of_whole(const RunSetup& whole, const Cluster& cluster, const Deadline& deadline) {
  try {
    return dry_run(whole, {0}, nullptr, false, false, {deadline});
  } catch (const DeviceError& error) {
    fail<ConfigError>("viaduct plan: the model cannot be planned on {}: {}", cluster.gpu.name,
                      error.what());
  }
}

}  // namespace

LayerCosts::LayerCosts(const PlanRequest& request, std::shared_ptr<const Variant> variant,
                       const Deadline& deadline)
    : request_(request), variant_(std::move(variant)) {
  VIADUCT_CHECK(ConfigError, request.cluster.gpu.has_kernels(),
                "cluster {}: there are no kernels for GPU {}; GPUs with an architecture in "
                "hardware/gpus.yaml have some",
                request.cluster.name, request.cluster.gpu.name);
  const auto setup = [&](bool sharded) {
    std::vector<std::string> overrides = on_ranks(1, 1, sharded);
    for (const char* field : {"context_parallel_size=1", "expert_model_parallel_size=1",
                              "expert_tensor_parallel_size=null"})
      overrides.push_back(std::string("model.") + field);
    return setup_of_layout(request, {.recompute = Recompute::given, .variant = variant_},
                           overrides);
  };
  try {
    whole_ = setup(false);
  } catch (const ConfigError&) {
    whole_ = setup(true);  // weights gathered in FP8, for one, need shards
    sharded_ = true;
  }
  const int64_t tokens = whole_.config.model.seq_length.value();
  whole_.config.model.seq_length = std::min(tokens, kTokensOfWhole);
  const DryRun run = run_of_whole(whole_, request.cluster, deadline);
  whole_.config.model.seq_length = tokens;
  const StateBytes held = states_of(run);
  model_.layers = whole_.model.layers;
  model_.parameters = static_cast<double>(run.parameters);
  model_.bytes = {held.weights / model_.parameters, held.gradients / model_.parameters,
                  held.optimizer / model_.parameters};
  // Some weights of a vision tower never train, whichever of its parts do.
  const VisionConfig& vision = whole_.model.vision;
  model_.some_frozen = whole_.config.peft.any() || vision.any();
  model_.layers_frozen = whole_.config.peft.any() || vision.freeze_text;
  if (model_.some_frozen) model_.bytes.gradients = model_.bytes.optimizer = 0;
  // What is not offloaded, and what passes through while it is updated.
  if (whole_.config.state_offload.fraction() > 0) model_.bytes.optimizer = 0;
  counted_ = CountedLayers(whole_);
  model_.counted_layers = counted_.count();
}

RunSetup LayerCosts::setup_of(const Layout& layout, const std::vector<std::string>& overrides,
                              int64_t layers) const {
  RunSetup setup = setup_of_layout(request_, layout, overrides);
  counted_.reduce(setup, layers);
  return setup;
}

const LayerCost* LayerCosts::made(const Layout& layout) const {
  const auto found = made_.find(key_of(layout));
  return found == made_.end() ? nullptr : &found->second;
}

const LayerCost& LayerCosts::of(const Layout& layout, const Deadline& deadline) {
  if (made(layout) == nullptr) keep(layout, measured(layout, deadline));
  return *made(layout);
}

LayerCost LayerCosts::measured(const Layout& layout, const Deadline& deadline) const {
  if (layout.sharding == Sharding::full) {
    Layout whole = layout;
    whole.sharding = Sharding::optimizer;
    const LayerCost* known = made(whole);
    LayerCost cost = known != nullptr ? *known : measured(whole, deadline);
    if (cost.known) {
      cost.sharded_seconds = std::max(
          0.0, sharded_layer_seconds(layout, deadline) - cost.layer_seconds - cost.again_seconds);
    }
    return cost;
  }
  LayerCost cost = make(layout, {}, deadline);
  if (!cost.known || layout.recompute == Recompute::none) return cost;
  Layout kept = layout;
  kept.recompute = Recompute::none;
  const LayerCost* known = made(kept);
  set_apart(cost, known != nullptr ? *known : make(kept, {}, deadline));
  return cost;
}

double LayerCosts::sharded_layer_seconds(const Layout& layout, const Deadline& deadline) const {
  Layout one = layout;
  one.pp = one.vpp = 1, one.micro_batches = 1, one.variant = variant_;
  one.encoder_stages = one.encoder_tp = 0;
  std::array<double, 2> seconds{};
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::string> further =
        on_ranks(int64_t{layout.tp} * layout.cp * layout.dp, layout.micro_batch * layout.dp, true);
    further.emplace_back("ddp.data_parallel_sharding_strategy=optim_grads_params");
    try {
      seconds[i] = measure_run(setup_of(one, further, static_cast<int64_t>(i) + 1), request_,
                               hides_exchange(layout), true, deadline)
                       .batch_seconds;
    } catch (const ConfigError&) {
      return 0;
    }
  }
  return seconds[1] - seconds[0];
}

bool LayerCosts::hides_exchange(const Layout& layout) const {
  if (layout.ep <= 1) return false;
  try {
    return setup_of_layout(request_, layout).config.pipeline.overlap_moe_expert_parallel_comm;
  } catch (const ConfigError&) {
    return true;  // the cost counts for other layouts too, which may hide it
  }
}

void LayerCosts::set_apart(LayerCost& cost, const LayerCost& without) {
  cost.known = without.known;
  cost.again_seconds = std::max(0.0, cost.layer_seconds - without.layer_seconds);
  cost.layer_seconds = std::min(cost.layer_seconds, without.layer_seconds);
  cost.end_seconds = without.end_seconds;
  cost.embedding_seconds = without.embedding_seconds;
  cost.encoder_seconds = without.encoder_seconds;
}

LayerCost LayerCosts::make(const Layout& layout, const std::vector<std::string>& overrides,
                           const Deadline& deadline) const {
  LayerCost cost;
  if (!counts_layers()) return cost;
  // Ranks that hold all of a layer: those of a micro-batch, and those of its experts.
  const int64_t together = int64_t{layout.tp} * layout.cp;
  const int64_t ranks =
      layout.ep == 0 ? together : std::lcm(together, int64_t{layout.ep} * layout.etp);
  const bool sharded = sharded_ || layout.ep > 1 || (layout.ep == 1 && layout.etp != layout.tp);
  Layout one = layout;
  one.pp = one.vpp = 1, one.dp = static_cast<int>(ranks / together);
  one.encoder_stages = one.encoder_tp = 0;
  one.micro_batches = 1, one.sharding = Sharding::given, one.variant = variant_;
  std::array<MeasuredRun, 2> of_layers;
  const bool hides = hides_exchange(layout);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::string> further =
        on_ranks(ranks, layout.micro_batch * ranks / together, sharded);
    further.insert(further.end(), overrides.begin(), overrides.end());
    try {
      of_layers[i] = measure_run(setup_of(one, further, static_cast<int64_t>(i) + 1), request_,
                                 hides, false, deadline);
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
  // A rank holds its share of each logical tensor: bytes show how much.
  const double per_parameter = model_.bytes.weights;
  cost.layer_parameters = (two_layers.weights - one_layer.weights) / per_parameter;
  cost.end_parameters = one_layer.weights / per_parameter - cost.layer_parameters;
  if (model_.some_frozen) {
    cost.layer_trained = {0, std::max(0.0, two_layers.gradients - one_layer.gradients),
                          std::max(0.0, two_layers.optimizer - one_layer.optimizer)};
    cost.end_trained = {0, std::max(0.0, one_layer.gradients - cost.layer_trained.gradients),
                        std::max(0.0, one_layer.optimizer - cost.layer_trained.optimizer)};
  }
  if (layout.ep > 0) {
    const ModelConfig& model = whole_.model;
    const double matrices = (model.gated ? 3.0 : 2.0) * static_cast<double>(model.hidden);
    cost.expert_parameters =
        std::min(cost.layer_parameters,
                 matrices * static_cast<double>(model.moe.experts * model.moe.feed_forward) /
                     (double(layout.ep) * layout.etp));
  }
  // The waits of both ends may be hidden behind other micro-batches.
  const double layer_op_seconds = b.op_seconds - a.op_seconds;
  cost.layer_seconds = std::max(b.batch_seconds - a.batch_seconds, layer_op_seconds);
  cost.end_seconds = std::max(0.0, a.op_seconds - layer_op_seconds);
  cost.encoder_seconds = std::min(cost.end_seconds, a.encoder_seconds);
  cost.embedding_seconds = std::min(cost.end_seconds - cost.encoder_seconds, a.embedding_seconds);
  // Sharded over the ranks of this run, experts over fewer.
  const double shards = sharded ? std::min(one.shards(), one.expert_shards()) : 1;
  cost.layer_update_seconds = shards * std::max(0.0, b.update_seconds - a.update_seconds);
  // Other forms of weights exist once, whatever the number of micro-batches.
  const double forms = peak_bytes_of(b.run, MemoryTag::derived_weights) -
                       peak_bytes_of(a.run, MemoryTag::derived_weights);
  cost.layer_kept_bytes = std::max(0.0, peak_b - peak_a - layer_state - forms);
  cost.other_bytes = std::max(0.0, peak_a - sum(one_layer) - cost.layer_kept_bytes);
  const OffloadConfig& offload = whole_.config.offload;
  // Offloaded values differ between the layers, and with offloaded states the peak of a small model
  // is in its update.
  if (offload.cpu_offloading || offload.fine_grained_activation_offloading ||
      whole_.config.state_offload.fraction() > 0)
    cost.layer_kept_bytes = cost.other_bytes = cost.layer_trained.optimizer =
        cost.end_trained.optimizer = 0;
  const RecomputeConfig& recompute = whole_.config.recompute;
  cost.keeps_alike = !recompute.num_microbatches_with_partial_activation_checkpoints.has_value();
  return cost;
}

}  // namespace viaduct
