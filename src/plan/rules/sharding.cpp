// Fully sharded data parallelism, and how groups lie in domains.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/encoder_layout.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

constexpr const char* kNotSharded = "weights are not sharded over data ranks";

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}
std::vector<std::string> sharded() {
  return {"ddp.use_distributed_optimizer=true",
          "ddp.data_parallel_sharding_strategy=optim_grads_params"};
}
Advice sharded_alone(const Figures& f, int tp, int pp) {
  Advice advice = with_sizes(f, tp, f.cp, pp);
  for (std::string& field : sharded()) advice.overrides.push_back(std::move(field));
  return advice;
}
Advice twice_the_rows(const Figures& f) {
  return change({fmt::format("train.micro_batch_size={}", 2 * f.micro_batch)});
}
double gradient_bytes(const Figures& f) {
  return f.config.ddp.grad_reduce_in_fp32 ? 4 : 2;
}

Finding fsdp_hides(const Figures& f, const Thresholds&) {
  if (f.fully_sharded) return not_applicable("weights are sharded already");
  if (f.ranks == 1) return not_applicable("there is one rank");
  if (!f.machine) return unknown("the rates of products and links: give a cluster");
  if (f.tp * f.pp == 1 && !f.too_large())
    return not_applicable("it fits with data and context ranks alone");
  const double least = group_ratio(f, "dp") * (4 + gradient_bytes(f)) / 6;
  if (f.tokens() < least)
    return not_applicable(
        fmt::format("{:.0f} tokens a micro-batch hide no gather of weights, which needs {:.0f}",
                    f.tokens(), least));
  return if_gain(
      Level::hint,
      fmt::format("{:.0f} tokens a micro-batch hide the gather of sharded weights (from {:.0f} on)",
                  f.tokens(), least),
      {{"tokens", f.tokens(), ""}, {"tokens that hide", least, ""}, {"peak", f.peak(), "bytes"}},
      {sharded_alone(f, 1, 1), change(sharded())});
}

Finding fsdp_activations(const Figures& f, const Thresholds&) {
  if (!f.fully_sharded) return not_applicable(kNotSharded);
  const StageBytes& stage = f.fullest();
  if (stage.activations <= 0.5 * stage.peak)
    return not_applicable(
        fmt::format("activations are {:.0f} % of the peak", 100 * stage.activations / stage.peak));
  if (!f.machine) return unknown("the link to the host: give a cluster");
  const double needed =
      f.times ? stage.activations * static_cast<double>(f.micro_batches) / f.times->step : 0;
  const double link = f.machine->cluster.gpu.host_bytes_per_second;
  const Advice recompute =
      change({"model.recompute_granularity=selective", "model.recompute_modules=[layernorm,mlp]"});
  const Advice offload =
      change({"model.fine_grained_activation_offloading=true", "model.offload_modules=[mlp]"});
  return if_gain(
      Level::warn,
      fmt::format(
          "activations take {} of {}; to move them out would need {:.0f} GB/s of a host link of "
          "{:.0f} GB/s",
          bytes(stage.activations), bytes(stage.peak), needed / 1e9, link / 1e9),
      {{"activations", stage.activations, "bytes"},
       {"needed", needed, "bytes/s"},
       {"host link", link, "bytes/s"}},
      {needed <= link ? offload : recompute, needed <= link ? recompute : offload,
       with_sizes(f, f.tp, 2 * f.cp, f.pp)});
}

Finding fsdp_host_bound(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  const double host = f.times->share(f.times->host);
  if (host <= limits[Limit::host_high])
    return not_applicable(fmt::format("waiting for launches is {:.1f} %", 100 * host));
  if (f.tp == 1) return not_applicable("tp = 1");
  return if_gain(Level::hint,
                 fmt::format("compute waits {:.1f} % of the step for {} launches: sharded weights "
                             "need no tensor ranks",
                             100 * host, f.launches),
                 {{"host", host, "of the step"}, {"launches", static_cast<double>(f.launches), ""}},
                 {sharded_alone(f, 1, f.pp)});
}

Finding fsdp_many_microbatches(const Figures& f, const Thresholds& limits) {
  if (!f.fully_sharded) return not_applicable(kNotSharded);
  if (f.micro_batches == 1) return not_applicable("one micro-batch gathers the weights once");
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of("fsdp"));
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(
        fmt::format("exposed communication of shards is {:.1f} %", 100 * exposed));
  return if_gain(
      Level::warn,
      fmt::format("{} the weights: {} a step, {:.1f} % of it exposed",
                  counted(f.micro_batches, "micro-batch gathers", "micro-batches each gather"),
                  bytes(f.traffic_of("fsdp").bytes), 100 * exposed),
      {{"a step", f.traffic_of("fsdp").bytes, "bytes"}, {"exposed", exposed, "of the step"}},
      {twice_the_rows(f), change({"ddp.data_parallel_sharding_strategy=optim"})});
}

Finding fsdp_hybrid(const Figures& f, const Thresholds&) {
  if (!f.fully_sharded) return not_applicable(kNotSharded);
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  if (!f.crosses("dp")) return not_applicable("the ranks that share weights are inside a domain");
  const int64_t inner = std::max(1, f.crossings.at("dp").inside);
  const int64_t instances = f.shards() / inner;
  if (instances < 2) return not_applicable("one instance has all ranks");
  const double states = f.fullest().states() * static_cast<double>(instances);
  if (f.peak() - f.fullest().states() + states > f.machine->capacity_bytes)
    return not_applicable(
        fmt::format("states shared by {} alone need {}", counted(inner, "rank"), bytes(states)));
  return if_gain(
      Level::hint,
      fmt::format(
          "{} ranks across domains share the weights; {} inside one domain could, replicated {} "
          "times, with {} of states",
          f.shards(), inner, instances, bytes(states)),
      {{"states", states, "bytes"}, {"instances", static_cast<double>(instances), ""}},
      {change({fmt::format("ddp.num_distributed_optimizer_instances={}", instances)})});
}

Finding fsdp_legal(const Figures& f, const Thresholds&) {
  (void)f;
  return not_applicable(
      "combinations that do not go together are configuration errors "
      "(src/run/rules/sharding.cpp), and settings without effect are noted at the start");
}

Finding fsdp_buffers(const Figures& f, const Thresholds&) {
  if (!f.fully_sharded) return not_applicable(kNotSharded);
  Finding finding = fires(
      Level::warn,
      fmt::format(
          "gather buffers may need more than shards of weights save: {} of weights in a peak of {}",
          bytes(f.fullest().weights), bytes(f.peak())),
      {{"peak", f.peak(), "bytes"}, {"weights", f.fullest().weights, "bytes"}},
      {change({"ddp.data_parallel_sharding_strategy=optim"})});
  if (!f.machine) return unknown("the peak without sharded weights: give a cluster");
  finding.needs_smaller_peak = true;
  return finding;
}

/// The axes whose groups should not straddle, data ranks only where their communication shows.
Finding domain_straddle(const Figures& f, const Thresholds& limits) {
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  if (f.tp * f.cp * f.pp * f.ep == 1 || f.fully_sharded)
    return not_applicable("data ranks alone, and sharded weights, are not bound to domains");
  std::vector<Quantity> values;
  std::string text;
  for (const auto& [axis, found] : f.crossings) {
    if (found.straddling == 0 || found.ranks > f.machine->cluster.domain) continue;
    const double exposed =
        f.times ? f.times->share(f.times->exposed_of(axis == "dp" ? f.data_axis() : axis)) : 0;
    if (axis == "dp" && exposed <= limits[Limit::exposed_min]) continue;
    text += fmt::format("{}{} of {} {} groups of {}", text.empty() ? "" : ", ", found.straddling,
                        found.groups, axis, found.ranks);
    values.push_back({axis + " groups across", static_cast<double>(found.straddling), ""});
  }
  if (values.empty()) return not_applicable("no heavy group that would fit a domain straddles two");
  return if_gain(
      Level::warn,
      fmt::format("{} straddle domains of {} although they would fit in one", text,
                  f.machine->cluster.domain),
      std::move(values),
      {change({fmt::format("dist.use_tp_pp_dp_mapping={}", !f.config.dist.use_tp_pp_dp_mapping)})});
}

Finding domain_fill(const Figures& f, const Thresholds&) {
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  const int domain = f.machine->cluster.domain;
  const int power = 1 << (31 - __builtin_clz(static_cast<unsigned>(domain)));
  if (domain == power)
    return not_applicable(fmt::format("a domain has {} GPUs, a power of two", domain));
  const bool even = domain % (f.tp * f.cp) == 0 && (!f.experts() || domain % (f.ep * f.etp) == 0);
  if (even && f.ranks % domain == 0)
    return not_applicable(fmt::format("tp · cp and ep divide a domain of {}", domain));
  const double idle = 1 - static_cast<double>(power) / domain;
  return fires(
      Level::hint,
      fmt::format(
          "sizes {} do not fill domains of {}: {} GPUs of each leave {:.1f} % idle and straddle "
          "nothing (a cluster file with domain: {})",
          f.experts() ? fmt::format("tp {} · cp {}, ep {}", f.tp, f.cp, f.ep)
                      : fmt::format("tp {} · cp {}", f.tp, f.cp),
          domain, power, 100 * idle, power),
      {{"idle", idle, "of the GPUs"}});
}

}  // namespace

RuleGroup sharding_rules() {
  return {
      "Sharding and domains",
      {{"fsdp-hides", kPlan, "hint: t·p > 1 or the run does not fit; T ≥ R(4 + gradient bytes)/6",
        "Small models with long rows: shard the weights over data ranks instead of tp and pp.",
        "70B, 128 H100, against tp 4 · pp 4 · cp 2: −5.5 % in BF16, +16 % in FP8, of another "
        "framework "
        "(dgxc25.02-073, dgxc25.02-032)",
        "guides, full sharding", fsdp_hides},
       {"fsdp-activations", kPlan, "warn: sharded weights, activations > half of the peak",
        "Offload activations where the host link is fast enough, else recompute or shard the "
        "sequence.",
        "70B: 20 layers offloaded on GB300 47 % MFU, 40 on GB200 37 %", "guides, full sharding",
        fsdp_activations},
       {"fsdp-host-bound", kPlan | kRun, "hint: waiting for launches > host_high with t > 1",
        "Sharded weights need no tp and allow larger micro-batches.", "", "guides, full sharding",
        fsdp_host_bound},
       {"fsdp-many-microbatches", kPlan, "warn: sharded weights, n > 1, exposed > exposed_min",
        "The weights are gathered n times: larger micro-batches, or sharded optimizer state alone.",
        "a 405B run kept weights between forward and backward", "Megatron's options",
        fsdp_many_microbatches},
       {"fsdp-hybrid", kPlan, "hint: the ranks that share weights cross domains, states fit in one",
        "Shard inside the domain, replicate outside.",
        "70B in FP8, 512 GPUs: by 128 2.6 % faster than by 256", "guides, at scale", fsdp_hybrid},
       {"fsdp-legal", kPlan, "error: combinations that are refused",
        "Experts combine with full sharding in Megatron's implementation, not in PyTorch's.", "",
        "guides, full sharding", fsdp_legal, "what does not go together is a configuration error"},
       {"fsdp-buffers", kPlan, "warn: the peak with sharded weights is not below that without",
        "Gather buffers outweigh the shards: smaller units, or sharded optimizer state alone.", "",
        "NeMo guide, custom sharding", fsdp_buffers},
       {"encoder-layout", kPlan,
        "hint: a stage of the encoder computes less than encoder_share of one of the decoder "
        "(wrong sizes are configuration errors), or more than 1 + stage_skew of one; the first "
        "stage, if the encoder or a vision tower "
        "is on it, more than 1 + stage_skew of the others; note: several stages of an encoder, or "
        "more tensor ranks than the decoder's, which Megatron did not have",
        "Give a small encoder fewer stages, or the decoder's first one, and a large one more; the "
        "first stage fewer layers beside a large one, or that a stage of its own.",
        "", "guides, encoders", encoder_layout},
       {"domain-straddle", kPlan,
        "warn: a tp, cp or ep group that fits a domain straddles two (dp if exposed > "
        "exposed_min); not with data "
        "ranks alone or sharded weights",
        "Use sizes that divide the domain, the other order of axes, or 64 of 72 GPUs. In the "
        "guides' example the "
        "data groups cross, "
        "the tensor groups do not.",
        "", "guides, NVL72", domain_straddle},
       {"domain-fill", kPlan, "hint: a domain is no power of two, and the sizes do not divide it",
        "Use a power of two of each domain. Of e = 8 … 64 with 256 experts only 8 divides 72.", "",
        "guides, NVL72", domain_fill}}};
}

}  // namespace viaduct::rules
