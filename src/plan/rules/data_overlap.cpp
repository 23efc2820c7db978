// Communication of data ranks: overlap, buckets, instances and formats on the wire.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "plan/collective_time.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

constexpr const char* kOneDataRank = "there is one data rank";
constexpr const char* kSharded = "weights are sharded: units are gathered instead of buckets";

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}
double gradient_bytes(const Figures& f) {
  return f.config.ddp.grad_reduce_in_fp32 ? 4 : 2;
}
double exposed_dp(const Figures& f) {
  return f.times->share(f.times->exposed_of(f.data_axis()));
}
int64_t ring(const Figures& f) {
  return f.shards() / f.config.ddp.num_distributed_optimizer_instances;
}

Finding dp_overlap_off(const Figures& f, const Thresholds&) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  const bool gradients = f.config.ddp.overlap_grad_reduce;
  const bool weights = !f.distributed_optimizer || f.config.ddp.overlap_param_gather.value_or(true);
  if (gradients && weights) return not_applicable("gradients and weights overlap with compute");
  const double exposed = f.times ? exposed_dp(f) : 0;
  std::vector<std::string> fields{"ddp.overlap_grad_reduce=true"};
  if (f.distributed_optimizer) fields.emplace_back("ddp.overlap_param_gather=true");
  return if_gain(
      Level::warn,
      fmt::format("{} of data ranks run{} outside of compute: {} a step, exposed {:.1f} %",
                  gradients ? "weight gathers"
                  : weights ? "gradient reductions"
                            : "gradients and weights",
                  "", bytes(f.traffic_of(f.data_axis()).bytes), 100 * exposed),
      {{"a step", f.traffic_of(f.data_axis()).bytes, "bytes"}, {"exposed", exposed, "of the step"}},
      {change(std::move(fields))});
}

Finding dp_align(const Figures& f, const Thresholds&) {
  if (f.pp == 1 || f.vpp == 1) return not_applicable("pp = 1, or there are no virtual stages");
  if (f.config.ddp.align_param_gather.value_or(true))
    return not_applicable("gathers of all stages are aligned");
  if (!f.config.ddp.overlap_param_gather.value_or(false))
    return not_applicable("weights are not gathered in overlap");
  return if_gain(
      Level::warn,
      fmt::format(
          "each of {} stages gathers weights when it needs them, and slows the others in turn",
          f.pp),
      {{"stages", static_cast<double>(f.pp), ""}}, {change({"ddp.align_param_gather=true"})});
}

Finding dp_partial_instances(const Figures& f, const Thresholds&) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (!f.distributed_optimizer || f.fully_sharded)
    return not_applicable("optimizer state alone is not sharded");
  if (!f.machine) return unknown("the network: give a cluster");
  if (!f.crosses("dp")) return not_applicable("data ranks are inside a domain");
  std::vector<Advice> advice;
  for (const int64_t k : {2, 4, 8}) {
    if (f.shards() % k != 0 || f.shards() == k || f.expert_shards() % k != 0) continue;
    if (k > f.config.ddp.num_distributed_optimizer_instances)
      advice.push_back(change({fmt::format("ddp.num_distributed_optimizer_instances={}", k)}));
  }
  if (advice.empty()) return not_applicable("no number of instances divides the data ranks");
  const double extra = 12 * f.trained_parameters / static_cast<double>(f.shards());
  return if_gain(
      Level::hint,
      fmt::format(
          "the ring of {} data ranks crosses domains; two instances of the optimizer halve it and "
          "keep {} more of state a rank",
          ring(f), bytes(extra)),
      {{"ring", static_cast<double>(ring(f)), "ranks"}, {"more state", extra, "bytes"}},
      std::move(advice));
}

struct Bucket {
  double elements = 0, seconds = 0, latency = 0;
};

/// Of the reduction of a full bucket.
Bucket bucket_of(const Figures& f) {
  Bucket bucket;
  bucket.elements = std::min(static_cast<double>(f.config.ddp.bucket_size.value_or(40'000'000)),
                             f.trained_parameters);
  if (bucket.elements == 0)
    bucket.elements = f.trained_parameters / f.config.ddp.num_buckets.value_or(1);
  const CollectiveTime time(f.machine->cluster, f.machine->settings.collectives);
  const int stride = f.tp;
  const CollectiveTime::Extent extent = time.strided_extent(static_cast<int>(ring(f)), stride);
  bucket.seconds =
      time.seconds(Collective::reduce_scatter, bucket.elements * gradient_bytes(f), extent);
  bucket.latency = time.seconds(Collective::reduce_scatter, 0, extent);
  return bucket;
}

Finding dp_bucket_small(const Figures& f, const Thresholds& limits) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (f.fully_sharded) return not_applicable(kSharded);
  if (!f.machine) return unknown("the links: give a cluster");
  const Bucket bucket = bucket_of(f);
  const double share = bucket.latency / bucket.seconds;
  const double most = std::max(limits[Limit::latency_high], 1 - limits[Limit::bucket_rate]);
  if (share <= most || bucket.elements >= f.trained_parameters)
    return not_applicable(
        fmt::format("latency is {:.1f} % of the time of a bucket of {} parameters", 100 * share,
                    format_count(bucket.elements)));
  const auto larger = static_cast<int64_t>(bucket.elements * share / (1 - share) * 10);
  return if_gain(
      Level::warn,
      fmt::format("latency is {:.0f} % of the reduction of a bucket of {} parameters over {} ranks",
                  100 * share, format_count(bucket.elements), ring(f)),
      {{"latency", share, "of a bucket"}, {"bucket", bucket.elements, "parameters"}},
      {change(
          {fmt::format("ddp.bucket_size={}",
                       std::max<int64_t>(larger, 2 * static_cast<int64_t>(bucket.elements)))})});
}

Finding dp_bucket_tail(const Figures& f, const Thresholds& limits) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (f.fully_sharded) return not_applicable(kSharded);
  if (!f.times) return unknown(kNoTimes);
  const Bucket bucket = bucket_of(f);
  const double share = f.times->share(bucket.seconds);
  if (share <= limits[Limit::exposed_min])
    return not_applicable(fmt::format("the last bucket takes {:.2f} % of the step", 100 * share));
  return if_gain(
      Level::hint,
      fmt::format("the last bucket of {} parameters cannot overlap, and takes {:.1f} % of the step",
                  format_count(bucket.elements), 100 * share),
      {{"last bucket", share, "of the step"}, {"bucket", bucket.elements, "parameters"}},
      {change({fmt::format("ddp.bucket_size={}", static_cast<int64_t>(bucket.elements / 2))}),
       change({fmt::format("ddp.bucket_size={}", static_cast<int64_t>(bucket.elements / 4))})});
}

Finding norm_sm_margin(const Figures&, const Thresholds&) {
  return not_applicable(
      "norms are kernels of this trainer, which do not wait for each other on all multiprocessors");
}

Finding dp_reduce_bf16(const Figures& f, const Thresholds& limits) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (!f.config.ddp.grad_reduce_in_fp32) return not_applicable("gradients are not reduced in FP32");
  if (f.model.family.empty() || f.config.mixed_precision.recipe == RecipeName::fp32)
    return not_applicable("gradients of mixed_precision.recipe = fp32 are FP32");
  if (ring(f) >= static_cast<int64_t>(limits[Limit::ring_bf16]))
    return not_applicable(fmt::format("a ring of {} ranks loses accuracy in BF16", ring(f)));
  if (!f.times) return unknown(kNoTimes);
  const double exposed = exposed_dp(f);
  if (exposed <= limits[Limit::exposed_min] && !f.too_large())
    return not_applicable(fmt::format(
        "exposed communication of data ranks is {:.1f} %, and the run fits", 100 * exposed));
  return if_gain(
      Level::hint,
      fmt::format("gradients travel in FP32, exposed {:.1f} %: BF16 halves {} and frees {}",
                  100 * exposed, bytes(f.traffic_of(f.data_axis()).bytes),
                  bytes(f.fullest().gradients / 2)),
      {{"exposed", exposed, "of the step"}, {"freed", f.fullest().gradients / 2, "bytes"}},
      {change({"ddp.grad_reduce_in_fp32=false"})});
}

Finding dp_reduce_bf16_ring(const Figures& f, const Thresholds& limits) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (f.config.ddp.grad_reduce_in_fp32 || f.config.mixed_precision.recipe == RecipeName::fp32)
    return not_applicable("gradients are reduced in FP32");
  if (f.config.ddp.reduce_scatter_with_fp32_accumulation)
    return not_applicable("sums are kept in FP32");
  const auto q = static_cast<double>(ring(f));
  if (q < limits[Limit::ring_bf16])
    return not_applicable(fmt::format("the ring has {:.0f} ranks", q));
  const double scale = std::sqrt(q) / 512;
  return fires(Level::warn,
               fmt::format("BF16 sums over a ring of {:.0f} ranks have an error of about {:.1f} %, "
                           "at worst {:.0f} %",
                           q, 100 * scale, 100 * (q - 1) / 512),
               {{"ring", q, "ranks"}, {"error", scale, "relative"}},
               {change({"ddp.reduce_scatter_with_fp32_accumulation=true"}),
                change({"ddp.num_distributed_optimizer_instances=2"}),
                change({"ddp.grad_reduce_in_fp32=true"})});
}

Finding dp_sharp(const Figures& f, const Thresholds& limits) {
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (!f.times) return unknown(kNoTimes);
  const double exposed = exposed_dp(f);
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(
        fmt::format("exposed communication of data ranks is {:.1f} %", 100 * exposed));
  if (f.config.dist.use_sharp) return not_applicable("dist.use_sharp = true asks for it");
  const std::optional<bool> reduces =
      f.machine ? f.machine->cluster.switch_reduction : std::nullopt;
  if (!reduces)
    return unknown(
        "whether the network's switches reduce: say switch_reduction in the file of the cluster; "
        "dist.use_sharp=true asks NCCL for it where there is a GPU");
  if (!*reduces) return not_applicable("the network's switches do not reduce");
  return fires(Level::hint,
               fmt::format("communication of data ranks is exposed for {:.1f} % of the step, and "
                           "the switches of {} reduce: half the volume",
                           100 * exposed, f.machine->cluster.name),
               {{"exposed", exposed, "of the step"}}, {change({"dist.use_sharp=true"})});
}

Finding dp_fp8_gather(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable("products are not in FP8");
  if (scaling_of(f.scaling) != Scaling::tensor)
    return not_applicable(
        fmt::format("fp8_recipe={} does not gather codes of one scale", choice_name(f.scaling)));
  if (f.shards() == 1) return not_applicable(kOneDataRank);
  if (f.config.peft.any()) return not_applicable("frozen weights (section peft) are not gathered");
  if (f.config.mixed_precision.fp8_param_gather)
    return not_applicable("weights are gathered in FP8");
  return if_gain(Level::hint,
                 fmt::format("weights are gathered in 16 bits; as FP8 codes, {} a rank less on the "
                             "wire, no bit of a step changes",
                             bytes(f.parameters)),
                 {{"less on the wire", f.parameters, "bytes"}},
                 {change({"mixed_precision.fp8_param_gather=true"})});
}

}  // namespace

RuleGroup data_overlap_rules() {
  return {
      "Communication of data ranks",
      {{"dp-overlap-off", kPlan, "warn: reductions or gathers do not overlap, Z > 1",
        "Turn both on; gathers need the distributed optimizer.", "",
        "guides, communication overlap", dp_overlap_off},
       {"dp-align", kPlan, "warn: p > 1, v > 1, gathers are not aligned",
        "Align them: stages slow down together, not in turn.", "", "guides, communication overlap",
        dp_align},
       {"dp-partial-instances", kPlan, "hint: data ranks cross domains, and k instances are faster",
        "Reduce in Z/k ranks, then over instances.",
        "7B, 4 × 100 Gb/s, shards over 4 ranks against all: −1.6 % on 8 GPUs, +6 % on 64, +10 % on "
        "128, +20 % on 512",
        "guides, communication overlap; at scale", dp_partial_instances},
       {"dp-bucket-small", kPlan, "warn: latency > 20 % of a bucket's reduction",
        "Raise ddp.bucket_size: parameters, not bytes.", "", "guides, communication overlap",
        dp_bucket_small},
       {"dp-bucket-tail", kPlan, "hint: the last bucket > exposed_min",
        "Larger is not always better: the last bucket cannot overlap.", "", "guides, at scale",
        dp_bucket_tail},
       {"norm-sm-margin", kStart | kRun,
        "warn: norm kernels of a library that spin on all multiprocessors",
        "Leave multiprocessors to communication; norms of this trainer do not spin.", "",
        "guides, communication overlap", norm_sm_margin,
        "norms are kernels of this trainer, which do not spin"},
       {"dp-reduce-bf16", kPlan,
        "hint: FP32 reduction, Z < ring_bf16, exposed > exposed_min or the run does not fit",
        "Reduce in BF16: half the bytes, 2 bytes a parameter less.", "", "guides, data types",
        dp_reduce_bf16},
       {"dp-reduce-bf16-ring", kPlan, "warn: BF16 reduction over Z/k ≥ ring_bf16 ranks",
        "Sum in FP32, use shorter rings or FP32: the error grows as √q·2⁻⁹, at worst (q − 1)·2⁻⁹.",
        "", "guides, data types", dp_reduce_bf16_ring},
       {"dp-sharp", kPlan, "hint: the switches reduce, exposed > exposed_min",
        "Reduce in the switches: half the volume.", "", "guides, at scale", dp_sharp},
       {"dp-fp8-gather", kPlan,
        "hint: FP8 with a scale for each tensor, weights gathered in 16 bits",
        "Gather FP8: one byte a parameter, lossless. MXFP8 gathers 16 bits.", "",
        "guides, data types", dp_fp8_gather}}};
}

}  // namespace viaduct::rules
