#include "plan/rules/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "comm/domain_check.h"
#include "device/memory_tag.h"
#include "plan/op_time.h"
#include "plan/product_peak.h"
#include "precision/recipe.h"
#include "run/parallel_settings.h"
#include "run/resolved_run.h"
#include "run/run_length.h"

namespace viaduct::rules {
namespace {

double bytes_of(const DryRun& run, std::initializer_list<MemoryTag> tags) {
  double sum = 0;
  for (const MemoryTag tag : tags) {
    const auto found = run.peak.bytes_by_tag.find(std::string(memory_tag_name(tag)));
    if (found != run.peak.bytes_by_tag.end()) sum += static_cast<double>(found->second);
  }
  return sum;
}

StageBytes stage_bytes(const DryRun& run) {
  return {.peak = static_cast<double>(run.peak.bytes),
          .weights = bytes_of(run, {MemoryTag::weights, MemoryTag::derived_weights}),
          .gradients = bytes_of(run, {MemoryTag::main_gradients}),
          .optimizer = bytes_of(run, {MemoryTag::master_weights, MemoryTag::moments}),
          .activations = bytes_of(run, {MemoryTag::saved, MemoryTag::activations}),
          .workspace = bytes_of(run, {MemoryTag::workspace})};
}

std::optional<Fp8Scaling> fp8_scaling(const PrecisionRecipe& recipe) {
  switch (recipe.products.scaling) {
    case Scaling::tensor:
      return recipe.amax.source == AmaxSource::history ? Fp8Scaling::delayed
                                                       : Fp8Scaling::tensorwise;
    case Scaling::blocks:
      return Fp8Scaling::blockwise;
    case Scaling::mx:
      return Fp8Scaling::mxfp8;
    default:
      return std::nullopt;
  }
}

/// Elements of the experts' weights of a rank with `layers` layers.
double expert_elements(const Figures& f, double layers) {
  if (!f.experts()) return 0;
  double share = 1;
  if (!f.model.moe.layers.empty())
    share = static_cast<double>(
                std::count(f.model.moe.layers.begin(), f.model.moe.layers.end(), int64_t{1})) /
            static_cast<double>(f.model.moe.layers.size());
  const auto matrices = f.model.gated ? 3.0 : 2.0;
  return layers * share * static_cast<double>(f.model.moe.experts) / f.ep * matrices *
         static_cast<double>(f.model.hidden) * static_cast<double>(f.model.moe.feed_forward) /
         f.etp;
}

void add_dry_runs(const std::vector<const DryRun*>& runs, Figures& f) {
  for (const DryRun* run : runs) {
    f.stages.push_back(stage_bytes(*run));
    f.launches = std::max(f.launches, run->launches);
    // Tensors are counted whole: of those of experts a rank has etp's share, of the others tp's.
    const double experts = expert_elements(f, f.layers_of_a_stage());
    const double others = static_cast<double>(run->parameters) - experts * f.etp;
    const double of_rank = std::max(0.0, others) / f.tp + experts;
    f.parameters = std::max(f.parameters, of_rank);
    const double trained = run->parameters == 0 ? 0.0
                                                : static_cast<double>(run->trained_parameters) /
                                                      static_cast<double>(run->parameters);
    f.trained_parameters = std::max(f.trained_parameters, trained * of_rank);
    f.offloaded_bytes =
        std::max(f.offloaded_bytes,
                 static_cast<double>(std::max(run->offload.put_bytes, run->offload.fetched_bytes)));
  }
  for (const GroupTraffic& t : runs.front()->traffic) {
    std::string axis = axis_of_group(t.group);
    if (axis == "dp") axis = f.data_axis();
    AxisTraffic& sum = f.traffic[axis];
    sum.bytes += static_cast<double>(t.bytes);
    sum.wire_bytes += static_cast<double>(t.wire_bytes);
    sum.count += t.count;
    sum.ranks = std::max(sum.ranks, t.ranks);
  }
}

std::map<std::string, Crossing> crossings(const Mesh& mesh, int domain) {
  std::map<std::string, Crossing> found;
  for (const Straddling& s : groups_across_domains(mesh, domain)) {
    const std::string axis = axis_of_group(std::string(group_kind_name(s.kind)));
    if (found.contains(axis)) continue;  // the dense weights' data ranks come first
    Crossing& crossing = found[axis];
    crossing = {s.groups, s.straddling, s.ranks_per_group, static_cast<int>(s.ranks_per_group)};
    if (s.example.empty()) continue;
    std::map<int, int> members;
    for (const GlobalRank rank : s.example) ++members[rank.value / domain];
    crossing.inside = 1;
    for (const auto& [number, count] : members) crossing.inside = std::max(crossing.inside, count);
  }
  return found;
}

Times times_of(const Prediction& p, const Figures& f) {
  Times times{.step = p.step_seconds,
              .mfu = p.mfu,
              .model_tflops = p.model_tflops_per_gpu,
              .tokens_per_second = p.tokens_per_second_per_gpu,
              .peak = p.peak};
  const auto stages = static_cast<double>(p.stages.size());
  for (const StagePrediction& stage : p.stages) {
    const StageTime& t = stage.time;
    times.compute += t.compute / stages, times.optimizer += t.optimizer / stages;
    times.bubble += t.bubble / stages, times.host += t.host / stages;
    times.products += t.compute_by_kind[static_cast<size_t>(OpKind::product)] / stages;
    times.attention += t.compute_by_kind[static_cast<size_t>(OpKind::attention)] / stages;
    times.other += t.compute_by_kind[static_cast<size_t>(OpKind::other)] / stages;
    times.stage_compute.push_back(t.compute);
    for (const auto& [group, seconds] : t.exposed) {
      const std::string axis = axis_of_group(group);
      times.exposed[axis == "dp" ? f.data_axis() : axis] += seconds / stages;
    }
  }
  return times;
}

Figures sizes_of(const RunSetup& setup) {
  Figures f;
  f.config = setup.config;
  f.model = setup.model;
  f.conversations = setup.conversations;
  const ParallelConfig& sizes = f.config.parallel;
  f.ranks = f.config.dist.ranks;
  f.tp = sizes.tensor_model_parallel_size, f.cp = sizes.context_parallel_size;
  f.pp = sizes.pipeline_model_parallel_size, f.vpp = f.config.pipeline.virtual_stages();
  f.dp = static_cast<int>(data_parallel_size(f.config));
  f.ep = sizes.expert_model_parallel_size, f.etp = f.experts() ? sizes.expert_tensor() : 1;
  f.micro_batch = f.config.train.micro_batch_rows();
  f.micro_batches = micro_batches(f.config);
  f.global_batch = batch_schedule(f.config).full();
  f.length = f.config.model.seq_length.value();
  f.sequence_cut = sizes.sequence_parallel.value_or(false);
  f.distributed_optimizer = f.config.ddp.use_distributed_optimizer &&
                            f.config.ddp.strategy() != ShardingStrategy::no_shard;
  f.fully_sharded = f.config.ddp.shards_weights();
  const PrecisionRecipe recipe = precision_recipe(f.config.mixed_precision);
  f.fp8 = fp8_scaling(recipe).has_value();
  f.scaling = fp8_scaling(recipe).value_or(f.scaling);
  f.format = product_format(recipe);
  return f;
}

}  // namespace

double Times::exposed_of(const std::string& axis) const {
  const auto found = exposed.find(axis);
  return found == exposed.end() ? 0 : found->second;
}

double Times::exposed_in_all() const {
  double sum = 0;
  for (const auto& [axis, seconds] : exposed) sum += seconds;
  return sum;
}

double Figures::tokens() const {
  return static_cast<double>(micro_batch) * static_cast<double>(length) / cp;
}

const StageBytes& Figures::fullest() const {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageBytes& a, const StageBytes& b) { return a.peak < b.peak; });
}

double Figures::layers_of_a_stage() const {
  return static_cast<double>(model.layers) / pp;
}

double Figures::encoder_share() const {
  const auto own = static_cast<size_t>(encoder_stages());
  const std::vector<double>& stages = times.value().stage_compute;
  if (own == 0 || own >= stages.size()) return 0;
  const auto border = stages.begin() + static_cast<ptrdiff_t>(own);
  const double encoder = std::accumulate(stages.begin(), border, 0.0) / static_cast<double>(own),
               decoder = std::accumulate(border, stages.end(), 0.0) /
                         static_cast<double>(stages.size() - own);
  return decoder > 0 ? encoder / decoder : 0;
}

bool Figures::crosses(const std::string& axis) const {
  const auto found = crossings.find(axis == "fsdp" ? "dp" : axis);
  return found != crossings.end() && found->second.straddling > 0;
}

const AxisTraffic& Figures::traffic_of(const std::string& axis) const {
  static constexpr AxisTraffic kNone;
  const auto found = traffic.find(axis);
  return found == traffic.end() ? kNone : found->second;
}

std::vector<BlockProduct> block_products(const Figures& f, int tp) {
  const ModelConfig& m = f.model;
  const auto h = static_cast<double>(m.hidden), d = static_cast<double>(m.head_dim);
  const auto a = static_cast<double>(m.heads), g = static_cast<double>(m.kv_heads);
  const bool routed = m.moe.any();
  const double width =
      static_cast<double>(routed ? m.moe.feed_forward : m.feed_forward) / (routed ? f.etp : tp);
  return {{"qkv", h, d * (a + 2 * std::max<double>(g, tp)) / tp},
          {"proj", a * d / tp, h},
          {"fc1", h, width * (m.gated ? 2 : 1)},
          {"fc2", width, h}};
}

double block_elements(const Figures& f) {
  const ModelConfig& m = f.model;
  const auto h = static_cast<double>(m.hidden), d = static_cast<double>(m.head_dim);
  const double matrices = m.gated ? 3 : 2;
  double feed_forward = static_cast<double>(m.feed_forward);
  if (m.moe.any())
    feed_forward =
        static_cast<double>(m.moe.feed_forward * m.moe.routing.topk + m.moe.shared_feed_forward);
  return h * d * static_cast<double>(2 * m.heads + 2 * m.kv_heads) + matrices * h * feed_forward;
}

double product_efficiency(const Figures& f, int tp, double rows) {
  const Machine& machine = f.machine.value();
  const OpTime time(machine.cluster.gpu, machine.settings.ops);
  double least = 0, seconds = 0;
  for (const BlockProduct& p : block_products(f, tp)) {
    OpEntryRecord op{.op = "gemm", .kernel = ""};
    const double flops = 2 * rows * p.in * p.out;
    op.cost.flops[static_cast<size_t>(FlopFormat::bf16)] = flops;
    op.cost.bytes_read = static_cast<int64_t>(2 * (rows * p.in + p.in * p.out));
    op.cost.bytes_written = static_cast<int64_t>(2 * rows * p.out);
    seconds += time.seconds(op);
    least += time.least_seconds(flops, OpKind::product, false);
  }
  return least / seconds;
}

double link_ratio(const Machine& machine) {
  return machine.product_flops / machine.link;
}

double network_ratio(const Machine& machine) {
  return machine.product_flops / machine.network;
}

double group_ratio(const Figures& f, const std::string& axis) {
  const Machine& machine = f.machine.value();
  const auto found = f.crossings.find(axis == "fsdp" ? "dp" : axis);
  if (found == f.crossings.end() || found->second.straddling == 0) return link_ratio(machine);
  const double members = found->second.inside;
  return machine.product_flops / std::min(machine.link, members * machine.network);
}

TensorLimit tensor_limit(const Figures& f) {
  const ModelConfig& m = f.model;
  const auto d = static_cast<double>(m.head_dim);
  const double width = static_cast<double>(m.moe.any() ? m.moe.feed_forward : m.feed_forward);
  const std::pair<const char*, double> sizes[] = {
      {"qkv", d * static_cast<double>(m.heads + 2 * m.kv_heads)},
      {"proj", d * static_cast<double>(m.heads)},
      {"fc1", width * (m.gated ? 2 : 1)},
      {"fc2", width}};
  const auto least =
      std::min_element(std::begin(sizes), std::end(sizes),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return {1 + least->second / link_ratio(f.machine.value()), least->first};
}

Machine machine_of(const Cluster& cluster, const PredictionSettings& settings) {
  Machine machine{.cluster = cluster, .settings = settings};
  machine.capacity_bytes = capacity_bytes(cluster, settings);
  const auto rate = [](const FormatRates& rates) {
    const auto found = rates.find("bf16");
    return found == rates.end() ? 0.0 : found->second;
  };
  machine.product_flops = rate(cluster.gpu.measured_flops);
  if (machine.product_flops == 0)
    machine.product_flops = rate(cluster.gpu.dense_flops) * settings.ops.matrix_share;
  machine.attention_flops = machine.product_flops * settings.ops.attention_share;
  machine.link = cluster.gpu.link_bytes_per_second;
  machine.network = cluster.nic_bytes_per_second / cluster.oversubscription;
  return machine;
}

Figures figures_of(const RunSetup& setup, const std::vector<DryRun>& stages) {
  Figures f = sizes_of(setup);
  std::vector<const DryRun*> runs;
  for (const DryRun& run : stages) runs.push_back(&run);
  add_dry_runs(runs, f);
  f.parameters_in_all = static_cast<double>(model_parameters(stages));
  f.expert_parameters = expert_elements(f, f.layers_of_a_stage());
  return f;
}

Figures figures_of(const RunSetup& setup, const Cluster& cluster,
                   const PredictionSettings& settings, const Prediction& prediction) {
  std::vector<DryRun> stages;
  for (const StagePrediction& stage : prediction.stages) stages.push_back(stage.run);
  Figures f = figures_of(setup, stages);
  f.machine = machine_of(cluster, settings);
  f.times = times_of(prediction, f);
  const Mesh mesh = resolve_run(setup.config, setup.model).parallelism.mesh;
  f.crossings = crossings(mesh, cluster.domain);
  RunSetup other{.config = setup.config, .model = setup.model};
  other.config.dist.use_tp_pp_dp_mapping = !other.config.dist.use_tp_pp_dp_mapping;
  try {
    f.crossings_in_other_order =
        crossings(resolve_run(other.config, other.model).parallelism.mesh, cluster.domain);
  } catch (const ConfigError&) {
    // experts do not allow the other order
  }
  return f;
}

std::string axis_of_group(const std::string& group) {
  const auto begins = [&](std::string_view text) { return group.starts_with(text); };
  if (begins("dp") || begins("expert_dp") || group == "statistics") return "dp";
  if (begins("ep") || begins("expert_tp_ep")) return "ep";
  if (begins("tp") || begins("expert_tp")) return "tp";
  if (begins("cp")) return "cp";
  if (begins("pp") || group == "model" || group == "embedding" || group == "position_embedding" ||
      group.ends_with("coder_positions"))
    return "pp";
  return group;
}

Advice change(std::vector<std::string> overrides) {
  Advice advice;
  advice.overrides = std::move(overrides);
  return advice;
}

Advice with_sizes(const Figures& f, int tp, int cp, int pp, int vpp) {
  std::vector<std::string> fields;
  if (tp != f.tp) {
    fields.push_back(fmt::format("model.tensor_model_parallel_size={}", tp));
    fields.emplace_back("model.sequence_parallel=auto");
    fields.emplace_back("comm_overlap.tp_comm_overlap=auto");
  }
  if (cp != f.cp) fields.push_back(fmt::format("model.context_parallel_size={}", cp));
  if (pp != f.pp) fields.push_back(fmt::format("model.pipeline_model_parallel_size={}", pp));
  if (vpp != f.vpp)
    fields.push_back(vpp == 1 ? std::string("model.virtual_pipeline_model_parallel_size=null")
                              : fmt::format("model.virtual_pipeline_model_parallel_size={}", vpp));
  if (vpp == 1 && f.vpp > 1) {
    for (const char* field : {"comm_overlap.overlap_p2p_comm=auto", "model.batch_p2p_comm=auto",
                              "ddp.align_param_gather=auto"})
      fields.emplace_back(field);
  }
  return change(std::move(fields));
}

Advice with_sizes(const Figures& f, int tp, int cp, int pp) {
  // As many virtual stages as still divide the layers of a stage.
  int vpp = pp == 1 ? 1 : f.vpp;
  while (vpp > 1 && f.model.layers % (int64_t{1} * pp * vpp) != 0) --vpp;
  if (pp > 1 && f.micro_batches % pp != 0) vpp = 1;
  return with_sizes(f, tp, cp, pp, vpp);
}

}  // namespace viaduct::rules
