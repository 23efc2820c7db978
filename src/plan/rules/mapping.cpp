// Which axes a model is cut along: data, tensor and context ranks.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}
double percent(double share) {
  return 100 * share;
}

Finding dp_first(const Figures& f, const Thresholds&) {
  if (f.tp * f.cp * f.pp == 1) return not_applicable("nothing but data ranks cuts the model");
  if (!f.machine) return unknown(kNoCapacity);
  if (f.global_batch % (f.micro_batch * f.ranks) != 0)
    return not_applicable(
        fmt::format("a batch of {} does not divide over {} data ranks in micro-batches of {}",
                    counted(f.global_batch, "row"), f.ranks, f.micro_batch));
  return if_gain(
      Level::hint,
      fmt::format("if one rank holds the run unsharded, data ranks alone have the largest "
                  "products and the least traffic; now tp {} · cp {} · pp {} need {} of {}",
                  f.tp, f.cp, f.pp, bytes(f.peak()), bytes(f.machine->capacity_bytes)),
      {{"peak", f.peak(), "bytes"}, {"capacity", f.machine->capacity_bytes, "bytes"}},
      {with_sizes(f, 1, 1, 1)});
}

Finding dist_opt_off(const Figures& f, const Thresholds&) {
  if (f.shards() == 1) return not_applicable("one data rank has nothing to shard");
  if (f.fully_sharded || f.distributed_optimizer)
    return not_applicable("optimizer state is sharded");
  const double shards = static_cast<double>(f.shards());
  return fires(
      Level::warn,
      fmt::format("each of {} data ranks keeps all optimizer state: {} now, a share of 1/{} "
                  "with the distributed optimizer",
                  f.shards(), bytes(f.fullest().optimizer), f.shards()),
      {{"optimizer", f.fullest().optimizer, "bytes"},
       {"sharded", f.fullest().optimizer / shards, "bytes"},
       {"on the wire", f.traffic_of("dp").wire_bytes, "bytes"}},
      {change(
          {"ddp.use_distributed_optimizer=true", "ddp.data_parallel_sharding_strategy=optim"})});
}

Finding smallest_that_fits(const Figures& f, const Thresholds&) {
  if (f.tp == 1 && f.pp == 1) return not_applicable("tp = pp = 1");
  if (!f.machine) return unknown(kNoCapacity);
  std::vector<Advice> advice;
  if (f.tp > 1) advice.push_back(with_sizes(f, f.tp / 2, f.cp, f.pp));
  if (f.pp > 1) advice.push_back(with_sizes(f, f.tp, f.cp, f.pp / 2));
  const double bubble = f.times ? f.times->share(f.times->bubble) : 0;
  return if_gain(
      Level::hint,
      fmt::format(
          "the smallest tp, then the smallest pp that fits is fastest in most runs: tp {} · pp "
          "{} need {} of {}, bubble {:.1f} %",
          f.tp, f.pp, bytes(f.peak()), bytes(f.machine->capacity_bytes), percent(bubble)),
      {{"peak", f.peak(), "bytes"}, {"bubble", bubble, "of the step"}}, std::move(advice));
}

int largest_inside(const Figures& f) {
  int tp = f.tp;
  while (tp > 1 && (tp > f.machine->cluster.domain || f.machine->cluster.domain % tp != 0)) --tp;
  while (tp > 1 && f.tp % tp != 0) --tp;
  return tp;
}

Finding tp_cross_domain(const Figures& f, const Thresholds&) {
  if (f.tp == 1) return not_applicable("tp = 1");
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  if (!f.crosses("tp")) return not_applicable("every tensor parallel group is inside a domain");
  const Crossing& crossing = f.crossings.at("tp");
  const int inside = largest_inside(f);
  return if_gain(Level::warn,
                 fmt::format("{} of {} tensor parallel groups leave their domain of {}; links are "
                             "{:.0f} times as fast as a "
                             "NIC, and a layer moves {} a step",
                             crossing.straddling, crossing.groups, f.machine->cluster.domain,
                             f.machine->link / f.machine->network,
                             bytes(f.traffic_of("tp").bytes / f.layers_of_a_stage())),
                 {{"crossing groups", static_cast<double>(crossing.straddling), ""},
                  {"links over NIC", f.machine->link / f.machine->network, "times"}},
                 {with_sizes(f, inside, f.cp, f.pp * f.tp / inside),
                  with_sizes(f, inside, f.cp * f.tp / inside, f.pp)});
}

Finding tp_too_large(const Figures& f, const Thresholds& limits) {
  if (f.tp == 1) return not_applicable("tp = 1");
  if (!f.machine) return unknown("the rates of products and links: give a cluster");
  const TensorLimit limit = tensor_limit(f);
  const double now = product_efficiency(f, f.tp, f.tokens());
  const double half = product_efficiency(f, f.tp / 2, f.tokens());
  if (f.tp <= limit.ranks && now >= limits[Limit::product_drop] * half)
    return not_applicable(
        fmt::format("tp {} is at most {:.1f}, and products keep {:.0f} % of the rate at tp {}",
                    f.tp, limit.ranks, percent(now / half), f.tp / 2));
  const double exposed = f.times ? f.times->share(f.times->exposed_of("tp")) : 0;
  return if_gain(
      Level::warn,
      fmt::format("tp {}: {} hides communication up to tp {:.1f}; products reach {:.0f} % of their "
                  "rate, {:.0f} % "
                  "at tp {}; exposed {:.1f} % of the step",
                  f.tp, limit.product, limit.ranks, percent(now), percent(half), f.tp / 2,
                  percent(exposed)),
      {{"tp that hides", limit.ranks, "ranks"},
       {"efficiency", now, ""},
       {"efficiency at half", half, ""},
       {"exposed tp", exposed, "of the step"}},
      {with_sizes(f, f.tp / 2, 2 * f.cp, f.pp), with_sizes(f, f.tp / 2, f.cp, 2 * f.pp)});
}

Finding tp_kv_replicated(const Figures& f, const Thresholds&) {
  if (f.model.latent.any()) return not_applicable("latent attention has no key-value heads to cut");
  if (f.tp <= f.model.kv_heads)
    return not_applicable(
        fmt::format("tp {} is at most the {} key-value heads", f.tp, f.model.kv_heads));
  const double copies = static_cast<double>(f.tp) / static_cast<double>(f.model.kv_heads);
  const double extra = 2 * f.layers_of_a_stage() * f.tokens() * 2 *
                       static_cast<double>(f.model.head_dim) * (1 - 1 / copies);
  return fires(Level::warn,
               fmt::format("tp {} is above the {} key-value heads: every rank makes {:.0f} copies' "
                           "share of keys and "
                           "values, {} more of a micro-batch",
                           f.tp, f.model.kv_heads, copies, bytes(extra)),
               {{"copies", copies, ""}, {"extra", extra, "bytes"}},
               {with_sizes(f, static_cast<int>(f.model.kv_heads), f.cp, f.pp)});
}

Finding sp_off(const Figures& f, const Thresholds&) {
  if (f.tp == 1) return not_applicable("tp = 1");
  if (f.sequence_cut) return not_applicable("sequence parallelism is on");
  const double layer = 8 * static_cast<double>(f.model.hidden) * f.tokens() * (1 - 1.0 / f.tp);
  return fires(
      Level::warn,
      fmt::format("without sequence parallelism each of {} tensor ranks keeps whole norms and "
                  "residuals: {} a "
                  "layer and micro-batch, {} a stage",
                  f.tp, bytes(layer), bytes(layer * f.layers_of_a_stage())),
      {{"of a layer", layer, "bytes"}, {"of a stage", layer * f.layers_of_a_stage(), "bytes"}},
      {change({"model.sequence_parallel=true"})});
}

Finding cp_for_activations(const Figures& f, const Thresholds&) {
  if (f.cp > 1) return not_applicable("cp is above 1");
  if (f.length <= f.model.hidden)
    return not_applicable(
        fmt::format("rows of {} tokens are at most the width {}", f.length, f.model.hidden));
  const StageBytes& stage = f.fullest();
  if (stage.activations <= stage.states())
    return not_applicable(fmt::format("activations ({}) are less than states ({})",
                                      bytes(stage.activations), bytes(stage.states())));
  const bool recomputes = f.config.recompute.recompute_granularity.has_value();
  if (!recomputes && !f.machine) return unknown(kNoCapacity);
  if (!recomputes && !f.too_large()) return not_applicable("it fits without recomputation");
  std::vector<Advice> advice;
  for (const int cp : {2, 4, 8}) {
    Advice one = with_sizes(f, f.tp, cp, f.pp);
    if (recomputes) {
      for (const char* field : {"model.recompute_granularity=null", "model.recompute_method=null",
                                "model.recompute_num_layers=null"})
        one.overrides.emplace_back(field);
    }
    advice.push_back(std::move(one));
  }
  return if_gain(
      Level::hint,
      fmt::format(
          "activations need {} and states {}: context ranks share the activations of rows of {} "
          "tokens",
          bytes(stage.activations), bytes(stage.states()), f.length),
      {{"activations", stage.activations, "bytes"}, {"states", stage.states(), "bytes"}},
      std::move(advice));
}

Finding cp_skinny(const Figures& f, const Thresholds& limits) {
  if (f.cp == 1) return not_applicable("cp = 1");
  if (!f.machine) return unknown("the rate of products: give a cluster");
  const double now = product_efficiency(f, f.tp, f.tokens()),
               twice = product_efficiency(f, f.tp, 2 * f.tokens());
  if (f.length >= f.model.hidden && now >= limits[Limit::product_drop_rows] * twice)
    return not_applicable(fmt::format(
        "rows of {} tokens are at least the width {}, and products of {:.0f} rows reach "
        "{:.0f} % of the rate of twice as many",
        f.length, f.model.hidden, f.tokens(), percent(now / twice)));
  return if_gain(
      Level::hint,
      fmt::format("cp {} narrows products to {:.0f} rows of width {}: {:.0f} % of their rate, "
                  "{:.0f} % with "
                  "twice the rows",
                  f.cp, f.tokens(), f.model.hidden, percent(now), percent(twice)),
      {{"rows", f.tokens(), ""}, {"efficiency", now, ""}, {"with twice the rows", twice, ""}},
      {with_sizes(f, f.tp, f.cp / 2, f.pp),
       change({fmt::format("train.micro_batch_size={}", 2 * f.micro_batch)})});
}

Finding cp_wrong_tool(const Figures& f, const Thresholds& limits) {
  if (f.cp == 1) return not_applicable("cp = 1");
  if (!f.machine) return unknown(kNoCapacity);
  const double states = f.fullest().states(), capacity = f.machine->capacity_bytes;
  if (states <= limits[Limit::states_high] * capacity)
    return not_applicable(
        fmt::format("states are {:.0f} % of the capacity", percent(states / capacity)));
  return fires(Level::warn,
               fmt::format("states fill {:.0f} % of {}, and the {} context ranks shard neither "
                           "weights nor gradients",
                           percent(states / capacity), bytes(capacity), f.cp),
               {{"weights", f.fullest().weights, "bytes"},
                {"gradients", f.fullest().gradients, "bytes"},
                {"optimizer", f.fullest().optimizer, "bytes"}},
               {with_sizes(f, 2 * f.tp, f.cp / 2, f.pp), with_sizes(f, f.tp, f.cp / 2, 2 * f.pp),
                change({"ddp.data_parallel_sharding_strategy=optim_grads_params"})});
}

Finding tp_cp_mix(const Figures& f, const Thresholds&) {
  if (f.tp < 4 || f.cp > 1) return not_applicable("tp is below 4 or cp above 1");
  if (f.length <= f.model.hidden)
    return not_applicable(
        fmt::format("rows of {} tokens are at most the width {}", f.length, f.model.hidden));
  // A layer's forward and backward: 8 gathers or scatters of T·h; keys, values and their gradients.
  const double h = static_cast<double>(f.model.hidden), rows = f.tokens();
  const double of_tp = 16 * rows * h * (1 - 1.0 / f.tp);
  const double of_mix =
      16 * rows / 2 * h * (1 - 2.0 / f.tp) +
      12 * rows / 2 * static_cast<double>(f.model.kv_heads * f.model.head_dim) * 2 / f.tp;
  return if_gain(Level::hint,
                 fmt::format("tp {} moves {} a layer and micro-batch; tp {} with cp 2 moves {}",
                             f.tp, bytes(of_tp), f.tp / 2, bytes(of_mix)),
                 {{"tp alone", of_tp, "bytes"}, {"with cp 2", of_mix, "bytes"}},
                 {with_sizes(f, f.tp / 2, 2, f.pp)});
}

}  // namespace

RuleGroup mapping_rules() {
  return {
      "Mapping",
      {{"dp-first", kPlan,
        "hint: t·c·p > 1, and the batch divides over data ranks alone, with which the run fits",
        "Set tp, cp and pp to 1: data ranks alone have the largest products and send least.",
        "8B in FP8 on 8 H100: sharded data parallel 14,079 tokens/s/GPU, cp 2 14,048, a tie "
        "(mb25.09-22, "
        "dgxc25.04-006)",
        "guides, mapping: data parallel", dp_first},
       {"dist-opt-off", kPlan,
        "warn: optimizer state is not sharded, Z > 1, weights are not sharded",
        "Turn the distributed optimizer on: 18 → 6 + 12/Z bytes a parameter. That it sends nothing "
        "more is exact "
        "with BF16 gradients; with FP32 gradients it sends less (6 against 8 bytes a parameter).",
        "", "guides, mapping: data parallel", dist_opt_off},
       {"smallest-that-fits", kPlan, "hint: t > 1 and t/2 fits, or p > 1 and p/2 fits",
        "Use the smallest tp, then the smallest pp that fits.",
        "405B, fewer layers, 8 B200: tp 8 is 8 to 9 % slower than tp 4, overlap off",
        "guides, mapping: tensor, context "
        "and pipeline parallel",
        smallest_that_fits},
       {"tp-cross-domain", kPlan, "warn: a tensor parallel group has ranks in several domains",
        "Keep tp inside the domain of fast links; let pp or cp take the rest.", "",
        "guides, mapping; benchmark page", tp_cross_domain},
       {"tp-too-large", kPlan,
        "warn: t > 1 + min(qkv, proj, fc1, fc2)/R_in, or products below 0.9 of their rate at t/2",
        "Halve tp and double cp or pp. The width over tp alone is no criterion.",
        "70B fine-tuning, tp 4 → 8: −28 %; yet 32B with tp 8 reaches 46 % MFU", "guides, mapping",
        tp_too_large},
       {"tp-kv-replicated", kPlan,
        "warn: t > key-value heads (indivisible sizes are configuration errors)",
        "Every rank repeats keys and values; prefer a tp of at most the key-value heads.", "",
        "Megatron's rules", tp_kv_replicated},
       {"sp-off", kPlan, "warn: t > 1 without sequence parallelism",
        "Turn sequence parallelism on: frees 8h·T(1 − 1/t) bytes a layer. The page's 75 % at tp 4 "
        "counts what tp "
        "shards already; a 70B layer with flash attention saves 42 % at tp 4 and 63 % at tp 8. It "
        "is not quite "
        "free: the input is gathered again in the backward.",
        "22B: activations 59.25 → 9.56 GiB, with selective recompute", "benchmark page", sp_off},
       {"cp-for-activations", kPlan,
        "hint: activations > states, s > h, c = 1, and the run does not fit or recomputes",
        "Shard the sequence rather than recompute. A fixed length such as 8K tokens is no rule.",
        "against the best layout without cp: B200 at 256k +37 %; H100 at 32k +2.5 %, 64k +7.5 %, "
        "512k 5.3×",
        "guides, mapping; long sequences", cp_for_activations},
       {"cp-skinny", kPlan,
        "hint: c > 1, and s < h or products below 0.95 of their rate with twice the rows",
        "Halve cp or double the micro-batch. s < h only raises the question; the predicted change "
        "decides.",
        "405B in FP8 with s 8k, h 16k and cp 2: 42 % MFU (dgxc25.04-033)", "guides, mapping",
        cp_skinny},
       {"cp-wrong-tool", kPlan, "warn: states > 0.8 of the capacity, c > 1",
        "cp shards no states: give the factor to tp, pp or full sharding.",
        "70B, 12 layers, 32k, 8 B200: cp 8 needs 104.5 GiB, tp 2 · cp 4 68.4 GiB and is 0.6 % "
        "faster",
        "guides, mapping", cp_wrong_tool},
       {"tp-cp-mix", kPlan, "hint: t ≥ 4, c = 1, s > h", "Try tp/2 with cp 2.", "",
        "guides, tips on mapping", tp_cp_mix}}};
}

}  // namespace viaduct::rules
