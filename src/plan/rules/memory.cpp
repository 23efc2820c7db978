// Memory: its users, and the cost of freeing it.

#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}
bool recomputes(const Figures& f) {
  return f.config.recompute.recompute_granularity.has_value();
}
const std::vector<std::string> kNoRecompute{"model.recompute_granularity=null",
                                            "model.recompute_method=null",
                                            "model.recompute_num_layers=null"};
std::vector<std::string> selective(const char* modules) {
  return {"model.recompute_granularity=selective", "model.recompute_method=null",
          "model.recompute_num_layers=null", std::string("model.recompute_modules=") + modules};
}
std::vector<std::string> full() {
  return {"model.recompute_granularity=full", "model.recompute_method=uniform",
          "model.recompute_num_layers=1"};
}
bool bf16_weights(const Figures& f) {
  const RecipeName recipe = f.config.mixed_precision.recipe;
  return recipe != RecipeName::fp32 && recipe != RecipeName::fp64;
}

Finding oom_smallest_change(const Figures& f, const Thresholds&) {
  if (!f.machine) return unknown(kNoCapacity);
  if (!f.too_large())
    return not_applicable(
        fmt::format("{} of {}", bytes(f.peak()), bytes(f.machine->capacity_bytes)));
  std::vector<Advice> advice{change(selective("[layernorm,mlp]")), change(full())};
  if (f.config.ddp.grad_reduce_in_fp32 && bf16_weights(f))
    advice.push_back(change({"ddp.grad_reduce_in_fp32=false"}));
  if (f.micro_batch % 2 == 0)
    advice.push_back(change({fmt::format("train.micro_batch_size={}", f.micro_batch / 2)}));
  advice.push_back(with_sizes(f, 2 * f.tp, f.cp, f.pp));
  advice.push_back(with_sizes(f, f.tp, f.cp, 2 * f.pp));
  advice.push_back(with_sizes(f, f.tp, 2 * f.cp, f.pp));
  if (!f.fully_sharded)
    advice.push_back(change({"ddp.use_distributed_optimizer=true",
                             "ddp.data_parallel_sharding_strategy=optim_grads_params"}));
  size_t stage = 0;
  for (size_t i = 0; i < f.stages.size(); ++i)
    if (f.stages[i].peak > f.stages[stage].peak) stage = i;
  const double missing = f.peak() - f.machine->capacity_bytes;
  return fires(Level::error,
               fmt::format("stage {} needs {} of {}: {} are missing", stage, bytes(f.peak()),
                           bytes(f.machine->capacity_bytes), bytes(missing)),
               {{"stage", static_cast<double>(stage), ""}, {"missing", missing, "bytes"}},
               std::move(advice));
}

Finding memory_itemised(const Figures& f, const Thresholds&) {
  const StageBytes& s = f.fullest();
  const double per = f.parameters > 0 ? s.states() / f.parameters : 0;
  return fires(Level::note,
               fmt::format("the fullest rank holds weights {}, gradients {}, optimizer {}, "
                           "activations {}; its state is {:.1f} bytes for each parameter of the "
                           "whole model",
                           bytes(s.weights), bytes(s.gradients), bytes(s.optimizer),
                           bytes(s.activations), per),
               {{"weights", s.weights, "bytes"},
                {"gradients", s.gradients, "bytes"},
                {"optimizer", s.optimizer, "bytes"},
                {"activations", s.activations, "bytes"},
                {"states", per, "bytes a parameter"}});
}

Finding recompute_cheapest(const Figures& f, const Thresholds&) {
  if (!f.machine) return unknown(kNoCapacity);
  if (!f.too_large() && !f.config.recompute.full())
    return not_applicable("it fits without full recomputation");
  std::vector<Advice> advice;
  if (f.config.recompute.full()) {
    advice.push_back(change(selective("[layernorm]")));
    advice.push_back(change(selective("[layernorm,mlp]")));
  } else {
    advice.push_back(change(selective("[layernorm]")));
    advice.push_back(change(selective("[mlp]")));
    advice.push_back(change(full()));
  }
  return if_gain(Level::hint,
                 fmt::format("activations of {} with {} recomputation: take what frees most bytes "
                             "for a millisecond first",
                             bytes(f.fullest().activations),
                             f.config.recompute.full() ? "full"
                             : recomputes(f)           ? "selective"
                                                       : "no"),
                 {{"activations", f.fullest().activations, "bytes"}}, std::move(advice));
}

Finding recompute_too_much(const Figures& f, const Thresholds& limits) {
  if (!recomputes(f)) return not_applicable("nothing is recomputed");
  if (!f.machine) return unknown(kNoCapacity);
  if (f.tighter_than(limits[Limit::fit_loose]))
    return not_applicable(fmt::format("the peak is {:.0f} % of the capacity",
                                      100 * f.peak() / f.machine->capacity_bytes));
  std::vector<Advice> advice{change(kNoRecompute)};
  if (f.config.recompute.full()) advice.push_back(change(selective("[layernorm,mlp]")));
  return if_gain(
      Level::warn,
      fmt::format("{} recomputation leaves {} of {} free",
                  choice_name(*f.config.recompute.recompute_granularity),
                  bytes(f.machine->capacity_bytes - f.peak()), bytes(f.machine->capacity_bytes)),
      {{"peak", f.peak(), "bytes"}, {"capacity", f.machine->capacity_bytes, "bytes"}},
      std::move(advice));
}

Finding recompute_core_attn_moot(const Figures& f, const Thresholds&) {
  const RecomputeConfig& r = f.config.recompute;
  auto rest = r.recompute_modules;
  if (!r.selective() || std::erase(rest, RecomputeModule::core_attn) == 0)
    return not_applicable("attention is not recomputed by itself");
  if (!f.model.flash_attention) return not_applicable("attention keeps its scores");
  return fires(
      Level::warn,
      "flash attention keeps no scores: recomputing core_attn runs it twice and frees next to "
      "nothing",
      {},
      {rest.empty() ? change(kNoRecompute)
                    : change({fmt::format("model.recompute_modules=[{}]",
                                          fmt::join(choice_names_of(rest), ","))})});
}

Finding offload_worth(const Figures& f, const Thresholds& limits) {
  if (f.offloaded_bytes > 0) return not_applicable("something is offloaded already");
  if (!f.times) return unknown(kNoTimes);
  if (!f.fully_sharded && !f.config.peft.any() &&
      static_cast<double>(f.length) < 2 * limits[Limit::length_long])
    return not_applicable(
        fmt::format("weights are trained and not sharded, and rows have {} tokens", f.length));
  if (f.fullest().activations <= f.fullest().states())
    return not_applicable("activations are less than states");
  const double needed =
      f.fullest().activations * static_cast<double>(f.micro_batches) / f.times->step;
  const double link = f.machine->cluster.gpu.host_bytes_per_second;
  if (needed > link)
    return not_applicable(fmt::format("to hide would need {:.0f} GB/s of a host link of {:.0f}",
                                      needed / 1e9, link / 1e9));
  return if_gain(
      Level::hint,
      fmt::format("activations of {} could leave the GPU at {:.0f} GB/s; the host link has {:.0f}",
                  bytes(f.fullest().activations), needed / 1e9, link / 1e9),
      {{"needed", needed, "bytes/s"}, {"host link", link, "bytes/s"}},
      {change({"model.fine_grained_activation_offloading=true", "model.offload_modules=[mlp]"})});
}

Finding offload_balance(const Figures& f, const Thresholds&) {
  if (f.offloaded_bytes == 0) return not_applicable("nothing is offloaded");
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->exposed_of("host memory");
  if (exposed == 0)
    return not_applicable(fmt::format("{} a step hide beside compute", bytes(f.offloaded_bytes)));
  const int64_t layers = f.config.offload.cpu_offloading_num_layers;
  const double keeps = 1 - exposed / f.times->step;
  std::vector<Advice> advice;
  if (f.config.offload.by_layer())
    advice.push_back(change({fmt::format(
        "model.cpu_offloading_num_layers={}",
        std::max<int64_t>(1, static_cast<int64_t>(keeps * static_cast<double>(layers))))}));
  return fires(Level::warn,
               fmt::format("copies of {} to the host take {:.1f} % longer than the step: offload "
                           "less, recompute the rest",
                           bytes(f.offloaded_bytes), 100 * f.times->share(exposed)),
               {{"offloaded", f.offloaded_bytes, "bytes"},
                {"exposed", f.times->share(exposed), "of the step"}},
               std::move(advice));
}

Finding precision_aware(const Figures& f, const Thresholds& limits) {
  if (!bf16_weights(f) || f.config.optimizer.optimizer != OptimizerKind::adam ||
      !f.distributed_optimizer)
    return not_applicable("not BF16 weights with Adam and sharded state");
  if (f.config.optimizer_state.use_precision_aware_optimizer) return not_applicable("it is on");
  if (!f.machine) return unknown(kNoCapacity);
  if (!f.tighter_than(limits[Limit::fit_tight]))
    return not_applicable(fmt::format("the peak is {:.0f} % of the capacity",
                                      100 * f.peak() / f.machine->capacity_bytes));
  const double shards = static_cast<double>(f.shards());
  return fires(
      Level::hint,
      fmt::format("remainders of masters free {}, BF16 moments {} more; BF16 gradients, "
                  "which no sharding divides, {}",
                  bytes(2 * f.trained_parameters / shards),
                  bytes(4 * f.trained_parameters / shards), bytes(2 * f.trained_parameters)),
      {{"remainders", 2 * f.trained_parameters / shards, "bytes"},
       {"moments", 4 * f.trained_parameters / shards, "bytes"}},
      {change({"optimizer.use_precision_aware_optimizer=true"}),
       change({"optimizer.use_precision_aware_optimizer=true", "optimizer.exp_avg_dtype=bf16",
               "optimizer.exp_avg_sq_dtype=bf16"})});
}

Finding fp8_params(const Figures& f, const Thresholds& limits) {
  if (!f.fp8 || f.config.mixed_precision.fp8_param_gather)
    return not_applicable("products are not in FP8, or weights are stored so");
  if (f.config.peft.any())
    return not_applicable("frozen weights (section peft) have no masters to write codes from");
  if (!f.machine) return unknown(kNoCapacity);
  if (!f.tighter_than(limits[Limit::fit_tight]))
    return not_applicable(fmt::format("the peak is {:.0f} % of the capacity",
                                      100 * f.peak() / f.machine->capacity_bytes));
  return fires(
      Level::hint,
      fmt::format("weights are kept in BF16 beside their FP8 form: {}", bytes(2 * f.parameters)),
      {{"BF16 copy", 2 * f.parameters, "bytes"}},
      {change({"mixed_precision.fp8_param_gather=true"})});
}

Finding fragmentation(const Figures& f, const Thresholds& limits) {
  if (!f.machine) return unknown(kNoCapacity);
  const double share = f.peak() / f.machine->capacity_bytes;
  if (share <= limits[Limit::fit_foreign] || share > 1)
    return not_applicable(fmt::format(
        "the peak is {:.0f} % of the capacity; this trainer's arena is laid out by the dry run",
        100 * share));
  return fires(Level::note,
               fmt::format("the peak is {:.0f} % of the capacity: it fits in this trainer's "
                           "planned arena, and would not with an "
                           "allocator that fragments",
                           100 * share),
               {{"peak", share, "of the capacity"}});
}

Finding nccl_memory(const Figures&, const Thresholds&) {
  return unknown("buffers of NCCL: seen when a run starts on the machine");
}

Finding first_stage_peak(const Figures& f, const Thresholds& limits) {
  if (f.pp == 1) return not_applicable("pp = 1");
  if (!f.machine) return unknown(kNoCapacity);
  // The first one of the decoder.
  const auto number = static_cast<size_t>(f.encoder_stages());
  const double first = f.stages[number].peak;
  double others = 0;
  for (size_t i = 0; i < f.stages.size(); ++i)
    if (i != number) others = std::max(others, f.stages[i].peak);
  const double capacity = f.machine->capacity_bytes;
  if (first <= limits[Limit::fit_tight] * capacity || others >= limits[Limit::fit_tight] * capacity)
    return not_applicable(fmt::format("stage {} needs {}, the others at most {}", number,
                                      bytes(first), bytes(others)));
  std::vector<Advice> advice;
  if (f.model.layers / f.pp > 1 && f.vpp == 1)
    advice.push_back(change(
        {fmt::format("model.num_layers_in_first_pipeline_stage={}", f.model.layers / f.pp - 1)}));
  if (f.vpp > 1) advice.push_back(with_sizes(f, f.tp, f.cp, f.pp, f.vpp / 2));
  return fires(Level::hint,
               fmt::format("stage {} alone is full: {} of {}, the others need {} at most", number,
                           bytes(first), bytes(capacity), bytes(others)),
               {{fmt::format("stage {}", number), first, "bytes"}, {"others", others, "bytes"}},
               std::move(advice));
}

}  // namespace

RuleGroup memory_rules() {
  return {
      "Memory",
      {{"oom-smallest-change", kPlan, "error: the peak is above the capacity",
        "The changes that fit, by what they cost: recomputation, smaller states, smaller "
        "micro-batches, more ranks a model, sharded weights.",
        "", "benchmark page; guides, memory", oom_smallest_change},
       {"memory-itemised", kPlan, "note: always",
        "Adam in mixed precision is 16 to 18 bytes a parameter before sharding, and FP8 does not "
        "halve memory.",
        "", "benchmark page", memory_itemised},
       {"recompute-cheapest", kPlan, "hint: the run does not fit, or recomputes whole layers",
        "Order by bytes for a millisecond: activation functions, feed-forwards, whole layers; "
        "norms only if they free bytes.",
        "16B with experts: activation functions −1.8 % memory for +2.0 % time, adding norms no "
        "memory for +10.8 %",
        "guides, memory", recompute_cheapest},
       {"recompute-too-much", kPlan, "warn: recomputation with a peak < fit_loose of the capacity",
        "Fewer layers, or units. Full recomputation costs one more forward, a third of the blocks' "
        "FLOPs.",
        "22B, full → selective with sequence parallelism: 1.42 → 1.10 s", "guides, memory",
        recompute_too_much},
       {"recompute-core-attn-moot", kPlan, "warn: core_attn is recomputed under flash attention",
        "Leave it out: the kernel already recomputes the scores.",
        "+3.9 % time, 36.618 → 36.614 GB", "guides, memory", recompute_core_attn_moot},
       {"offload-worth", kPlan,
        "hint: activations bind with sharded weights, LoRA or s ≥ 32k, and the host link is fast "
        "enough",
        "Offload activations.", "", "guides, memory", offload_worth},
       {"offload-balance", kPlan | kStart, "warn: offload shows in the step",
        "Offload fewer layers and recompute the rest.", "", "guides, memory", offload_balance},
       {"precision-aware", kPlan,
        "hint: BF16, Adam, sharded state, peak > fit_tight of the capacity",
        "Remainders free 2/Z, BF16 moments 4/Z bytes a parameter; at large Z BF16 gradients free "
        "more.",
        "", "guides, memory", precision_aware},
       {"fp8-params", kPlan, "hint: FP8 with BF16 weights beside, peak > fit_tight of the capacity",
        "Keep only the FP8 weights: 2 bytes a parameter less.", "", "guides, memory", fp8_params},
       {"fragmentation", kPlan | kStart, "note: peak > fit_foreign of the capacity",
        "Our arena is planned; others need segments that grow.",
        "70B fine-tuning: 58.8 GB and out of memory on 80 GB", "guides, memory", fragmentation},
       {"nccl-memory", kStart, "note: buffers of switches that no collective uses",
        "Switch them off only in that case.", "", "guides, memory", nccl_memory,
        "NCCL's buffers are seen on the machine"},
       {"first-stage-peak", kPlan, "hint: p > 1, stage 0 is full, the others are not",
        "Uneven stages or fewer virtual ones.", "", "pipeline schedules", first_stage_peak}}};
}

}  // namespace viaduct::rules
