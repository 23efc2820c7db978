#include "plan/layer_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "device/memory_tag.h"
#include "plan/collective_time.h"
#include "plan/op_time.h"
#include "plan/planning_defaults.h"
#include "precision/precision_config.h"
#include "timeline/resolver.h"

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
        // One micro-batch of one stage has no other one beside it.
        "model.pipeline_schedule=1f1b", "comm_overlap.overlap_moe_expert_parallel_comm=false",
        "comm_overlap.delay_wgrad_compute=false"})
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

template <class T>
bool all_equal(const std::vector<T>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

bool same_layers(const ModelConfig& model) {
  return model.mtp_layers == 0 && all_equal(model.windows) && all_equal(model.moe.layers);
}

/// Whether a run of one or two layers has the products of any layer: the first and the last may be
/// left in 16 bits.
bool same_products(const RunConfig& config) {
  const PrecisionRecipe recipe = precision_recipe(config.mixed_precision);
  return !recipe.products.any() || (recipe.plain_blocks_at_start == 0 &&
                                    recipe.plain_blocks_at_end == 0 && recipe.plain_layers.empty());
}

/// A dry run with the seconds of its step.
struct MeasuredRun {
  DryRun run;
  double batch_seconds = 0;      // from the micro-batch's first work to its last
  double op_seconds = 0;         // of the micro-batch's ops alone
  double embedding_seconds = 0;  // of these, of the ops of the embedding
  double update_seconds = 0;     // of the optimizer's ops
};

/// The scope of a micro-batch or of the optimizer around `scope`; null: none of them.
const ScopeRecord* phase_around(const StepRecord& record, int64_t scope) {
  while (scope >= 0) {
    const ScopeRecord& around = record.scopes()[static_cast<size_t>(scope)];
    if (around.micro_batch >= 0 || around.name == "optimizer") return &around;
    scope = around.parent;
  }
  return nullptr;
}

bool is_of_embedding(const StepRecord& record, int64_t scope) {
  for (; scope >= 0; scope = record.scopes()[static_cast<size_t>(scope)].parent) {
    const ScopeRecord& around = record.scopes()[static_cast<size_t>(scope)];
    const std::string_view layer = std::string_view(around.name).substr(0, around.name.find('.'));
    if (around.kind == ScopeKind::segment && layer == "embedding") return true;
  }
  return false;
}

/// Whether an op may take longer for the first micro-batch than for others: it makes quantized
/// operands, of weights once and of activations for each, or clears gradients, as that of a table
/// of tokens does before it adds to rows. A lower bound does not count it.
bool takes_longer_at_first(const OpEntryRecord& op) {
  return op.op == "fill" || op.op == "embedding_backward" || op.op == "convert_operand" ||
         op.op == "largest_magnitude" || op.op == "note_amax" ||
         std::string_view(op.op).starts_with("square_");
}

/// Whether a group sums gradients or gathers weights, which is not each micro-batch's.
bool of_data_ranks(const std::string& group) {
  return group.starts_with("dp") || group.starts_with("expert_dp");
}

/// Without the host, which may run ahead of the device, and without the communication of data ranks
/// unless `with_data_ranks`, nor that of experts' ranks if another micro-batch may hide it.
MeasuredRun measure(const RunSetup& setup, const PlanRequest& request, bool hides_exchange,
                    bool with_data_ranks = false) {
  StepRecord record;
  MeasuredRun measured{dry_run(setup, {0}, &record)};
  const SequenceWindow& step = measured.run.windows[static_cast<size_t>(MemorySequence::step)];
  const OpTime time(request.cluster.gpu, request.prediction.ops);
  const CollectiveTime collective_time(request.cluster, request.prediction.collectives);
  const double share = request.prediction.spec_sheet ? 1 : request.cluster.gpu.step_share;
  const int64_t first = measured.run.windows[static_cast<size_t>(MemorySequence::initialize)].end;
  const RankTimes times =
      resolve_times(
          {{0, &record, first, step.end}},
          {.op =
               [&](const OpEntryRecord& op) {
                 return takes_longer_at_first(op) ? 0 : time.seconds(op) / share;
               },
           .collective =
               [&](const CollectiveRecord& c) {
                 if (hides_exchange && c.group == "expert_tp_ep") return 0.0;
                 return with_data_ranks || !of_data_ranks(c.group) ? collective_time.seconds(c) : 0;
               },
           .slowdown = request.prediction.slowdown})
          .front();
  double begin = times.end, end = 0;
  const auto add = [&](int64_t at, int64_t scope, const TimeSpan& span, bool op) {
    if (at < step.begin || at >= step.end) return;
    const ScopeRecord* phase = phase_around(record, scope);
    if (phase == nullptr) return;
    if (phase->micro_batch >= 0) {
      begin = std::min(begin, span.begin), end = std::max(end, span.end);
      if (op) measured.op_seconds += span.seconds();
      if (op && is_of_embedding(record, scope)) measured.embedding_seconds += span.seconds();
    } else if (op) {
      measured.update_seconds += span.seconds();
    }
  };
  for (size_t i = 0; i < times.ops.size(); ++i)
    if (record.ops()[i].stream == 0)
      add(record.ops()[i].at, record.ops()[i].scope, times.ops[i], true);
  for (size_t i = 0; i < times.collectives.size(); ++i) {
    const CollectiveRecord& c = record.collectives()[i];
    if (with_data_ranks || !of_data_ranks(c.group))
      add(c.launched_at, c.scope, {times.begun[i], times.collectives[i].end}, false);
  }
  measured.batch_seconds = std::max(0.0, end - begin);
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
  return prepare_run(load_run_config(request.file, overrides, planning_defaults(request.cluster)));
}

MemoryNeed memory_need(const RunSetup& setup, const Cluster& cluster, const Deadline& deadline) {
  MemoryNeed need;
  double offloaded = 0;
  for (const DryRun& stage : dry_run_stages(setup, deadline)) {
    need.bytes = std::max(need.bytes, static_cast<double>(stage.peak.bytes));
    offloaded = std::max(offloaded, static_cast<double>(stage.offload.most_bytes));
  }
  need.host_bytes = host_bytes(cluster, setup.config, offloaded);
  return need;
}

LayerCosts::LayerCosts(const PlanRequest& request, std::shared_ptr<const Variant> variant)
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
  const DryRun run = run_of_whole(whole_, request.cluster);
  const StateBytes held = states_of(run);
  model_.layers = whole_.model.layers;
  model_.parameters = static_cast<double>(run.parameters);
  model_.bytes = {held.weights / model_.parameters, held.gradients / model_.parameters,
                  held.optimizer / model_.parameters};
  // What is not offloaded, and what passes through while it is updated.
  if (whole_.config.state_offload.fraction() > 0) model_.bytes.optimizer = 0;
  layers_alike_ = same_layers(whole_.model) && same_products(whole_.config);
}

const LayerCost* LayerCosts::made(const Layout& layout) const {
  const auto found = made_.find(key_of(layout));
  return found == made_.end() ? nullptr : &found->second;
}

const LayerCost& LayerCosts::of(const Layout& layout) {
  if (made(layout) == nullptr) keep(layout, measured(layout));
  return *made(layout);
}

LayerCost LayerCosts::measured(const Layout& layout) const {
  if (layout.sharding == Sharding::full) {
    Layout whole = layout;
    whole.sharding = Sharding::optimizer;
    const LayerCost* known = made(whole);
    LayerCost cost = known != nullptr ? *known : measured(whole);
    if (cost.known) {
      cost.sharded_seconds =
          std::max(0.0, sharded_layer_seconds(layout) - cost.layer_seconds - cost.again_seconds);
    }
    return cost;
  }
  LayerCost cost = make(layout);
  if (!cost.known || layout.recompute == Recompute::none) return cost;
  Layout kept = layout;
  kept.recompute = Recompute::none;
  const LayerCost* known = made(kept);
  set_apart(cost, known != nullptr ? *known : make(kept));
  return cost;
}

double LayerCosts::sharded_layer_seconds(const Layout& layout) const {
  Layout one = layout;
  one.pp = one.vpp = 1, one.micro_batches = 1, one.variant = variant_;
  std::array<double, 2> seconds{};
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::string> further =
        on_ranks(int64_t{layout.tp} * layout.cp * layout.dp, layout.micro_batch * layout.dp, true);
    further.emplace_back("ddp.data_parallel_sharding_strategy=optim_grads_params");
    further.push_back(fmt::format("model.num_layers={}", i + 1));
    try {
      seconds[i] =
          measure(setup_of_layout(request_, one, further), request_, hides_exchange(layout), true)
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
}

LayerCost LayerCosts::make(const Layout& layout, const std::vector<std::string>& overrides) const {
  LayerCost cost;
  if (!layers_alike_ || model_.layers < 2) return cost;
  // Ranks that hold all of a layer: those of a micro-batch, and those of its experts.
  const int64_t together = int64_t{layout.tp} * layout.cp;
  const int64_t ranks =
      layout.ep == 0 ? together : std::lcm(together, int64_t{layout.ep} * layout.etp);
  const bool sharded = sharded_ || layout.ep > 1 || (layout.ep == 1 && layout.etp != layout.tp);
  Layout one = layout;
  one.pp = one.vpp = 1, one.dp = static_cast<int>(ranks / together);
  one.micro_batches = 1, one.sharding = Sharding::given, one.variant = variant_;
  std::array<MeasuredRun, 2> of_layers;
  const bool hides = hides_exchange(layout);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<std::string> further =
        on_ranks(ranks, layout.micro_batch * ranks / together, sharded);
    further.push_back(fmt::format("model.num_layers={}", i + 1));
    further.insert(further.end(), overrides.begin(), overrides.end());
    try {
      of_layers[i] = measure(setup_of_layout(request_, one, further), request_, hides);
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
  cost.embedding_seconds = std::min(cost.end_seconds, a.embedding_seconds);
  // Sharded over the ranks of this run, experts over fewer.
  const double shards = sharded ? std::min(one.shards(), one.expert_shards()) : 1;
  cost.layer_update_seconds = shards * std::max(0.0, b.update_seconds - a.update_seconds);
  // Other forms of weights exist once, whatever the number of micro-batches.
  const double forms =
      bytes_of(b.run, MemoryTag::derived_weights) - bytes_of(a.run, MemoryTag::derived_weights);
  cost.layer_kept_bytes = std::max(0.0, peak_b - peak_a - layer_state - forms);
  cost.other_bytes = std::max(0.0, peak_a - sum(one_layer) - cost.layer_kept_bytes);
  const OffloadConfig& offload = whole_.config.offload;
  // Offloaded values differ between the layers, and with offloaded states the peak of a small model
  // is in its update.
  if (offload.cpu_offloading || offload.fine_grained_activation_offloading ||
      whole_.config.state_offload.fraction() > 0)
    cost.layer_kept_bytes = cost.other_bytes = 0;
  const RecomputeConfig& recompute = whole_.config.recompute;
  cost.keeps_alike = !recompute.num_microbatches_with_partial_activation_checkpoints.has_value();
  return cost;
}

}  // namespace viaduct
