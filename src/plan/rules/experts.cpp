// Experts: how many ranks share them, how tokens reach them.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

constexpr const char* kNoExperts = "the model has no experts";

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}

/// Product rate over that of the slowest link that the exchange of tokens crosses, against what the
/// experts' products hide; above 1: it does not hide.
double exchange_ratio(const Figures& f) {
  const double ratio = f.crosses("ep") ? network_ratio(*f.machine) : link_ratio(*f.machine);
  return ratio / (1.5 * static_cast<double>(f.model.moe.feed_forward) / f.etp);
}

Advice with_experts(int ep, int etp) {
  return change({fmt::format("model.expert_model_parallel_size={}", ep),
                 fmt::format("model.expert_tensor_parallel_size={}", etp)});
}

Finding ep_in_domain(const Figures& f, const Thresholds&) {
  if (!f.experts() || f.ep == 1) return not_applicable(f.experts() ? "ep = 1" : kNoExperts);
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  if (!f.crosses("ep")) return not_applicable("the ranks that share experts are inside a domain");
  const double exposed = f.times ? f.times->share(f.times->exposed_of("ep")) : 0;
  int inside = f.ep;
  while (inside > 1 &&
         (inside * f.etp > f.machine->cluster.domain || f.model.moe.experts % inside != 0))
    --inside;
  return if_gain(Level::warn,
                 fmt::format("tokens cross domains to reach experts: {} a step, {:.1f} times what "
                             "the experts' products "
                             "hide, exposed {:.1f} %",
                             bytes(f.traffic_of("ep").bytes), exchange_ratio(f), 100 * exposed),
                 {{"exchanged", f.traffic_of("ep").bytes, "bytes"},
                  {"against products", exchange_ratio(f), "times"},
                  {"exposed ep", exposed, "of the step"}},
                 {with_experts(inside, f.etp)});
}

Finding ep_overlap_off(const Figures& f, const Thresholds& limits) {
  if (!f.experts() || f.ep == 1) return not_applicable(f.experts() ? "ep = 1" : kNoExperts);
  if (f.config.pipeline.overlap_moe_expert_parallel_comm)
    return not_applicable("the exchange of tokens runs beside another micro-batch");
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of("ep"));
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(fmt::format("exposed exchange of tokens is {:.1f} %", 100 * exposed));
  std::vector<std::string> changes{"comm_overlap.overlap_moe_expert_parallel_comm=true"};
  if (f.config.model.moe.moe_token_dispatcher_type == TokenDispatcher::allgather)
    changes.push_back("model.moe_token_dispatcher_type=alltoall");
  return if_gain(
      Level::hint,
      fmt::format("ranks exchange {} of tokens a step, exposed {:.1f} %",
                  bytes(f.traffic_of("ep").bytes), 100 * exposed),
      {{"a step", f.traffic_of("ep").bytes, "bytes"}, {"exposed", exposed, "of the step"}},
      {change(std::move(changes))});
}

Finding expert_grid(const Figures& f, const Thresholds&) {
  if (!f.experts()) return not_applicable(kNoExperts);
  if (f.etp == 1) return not_applicable("experts are whole (etp = 1)");
  const double width = static_cast<double>(f.model.moe.feed_forward) / f.etp;
  return if_gain(
      Level::warn,
      fmt::format(
          "experts are cut over {} tensor ranks{}: each has a width of {:.0f}, and {} ranks share "
          "their states",
          f.etp, f.config.parallel.expert_tensor_parallel_size ? "" : " (unset: as tp)", width,
          f.expert_shards()),
      {{"etp", static_cast<double>(f.etp), ""},
       {"width", width, ""},
       {"expert shards", static_cast<double>(f.expert_shards()), "ranks"}},
      {change({"model.expert_tensor_parallel_size=1"}), with_experts(f.ep * f.etp, 1)});
}

Finding moe_grouped_gemm_off(const Figures& f, const Thresholds&) {
  if (!f.experts()) return not_applicable(kNoExperts);
  return not_applicable(
      fmt::format("all products of a rank's {} are one launch in this trainer, whatever "
                  "model.moe_grouped_gemm says",
                  counted(f.local_experts(), "expert")));
}

Finding ep_raise_first(const Figures& f, const Thresholds&) {
  if (!f.experts()) return not_applicable(kNoExperts);
  if (!f.machine) return unknown(kNoCapacity);
  if (!f.too_large()) return not_applicable("the run fits");
  const double per_parameter = f.parameters > 0 ? f.fullest().states() / f.parameters : 0;
  const double states = per_parameter * f.expert_parameters;
  if (states <= 0.5 * f.peak())
    return not_applicable(
        fmt::format("states of experts ({}) are less than half of the peak", bytes(states)));
  const int ep = 2 * f.ep;
  if (ep * f.etp > f.machine->cluster.domain || f.model.moe.experts % ep != 0)
    return not_applicable(fmt::format("ep {} leaves the domain or does not divide {} experts", ep,
                                      f.model.moe.experts));
  return if_gain(
      Level::hint,
      fmt::format("experts take {} of {}: ep {} halves them before tp or pp cut anything else",
                  bytes(states), bytes(f.peak()), ep),
      {{"expert states", states, "bytes"}, {"peak", f.peak(), "bytes"}}, {with_experts(ep, f.etp)});
}

Finding ep_dispatcher(const Figures& f, const Thresholds&) {
  if (!f.experts() || f.ep == 1) return not_applicable(f.experts() ? "ep = 1" : kNoExperts);
  const int64_t k = f.model.moe.routing.topk;
  const double row = 2 * f.tokens() / f.tp * static_cast<double>(f.model.hidden);
  const double gathered = (f.ep - 1) * row;
  const double sent = static_cast<double>(k) * row * (f.ep - 1) / f.ep;
  if (f.config.model.moe.moe_token_dispatcher_type != TokenDispatcher::allgather)
    return not_applicable("tokens are exchanged, not gathered");
  if (f.ep - 1 <= k)
    return not_applicable(
        fmt::format("gathering the tokens of {} ranks moves no more than sending each to {}", f.ep,
                    counted(k, "expert")));
  return if_gain(
      Level::hint,
      fmt::format("every rank gathers the tokens of {} ranks, {} a layer; an exchange moves {}",
                  f.ep, bytes(gathered), bytes(sent)),
      {{"gathered", gathered, "bytes"}, {"exchanged", sent, "bytes"}},
      {change({"model.moe_token_dispatcher_type=alltoall"})});
}

}  // namespace

RuleGroup expert_rules() {
  return {
      "Experts",
      {{"ep-in-domain", kPlan,
        "warn: the ranks that share experts are in several domains, exchange is not overlapped",
        "Keep e·x within the domain, or overlap the exchange. Not absolute: a smaller e costs more "
        "pp or tp.",
        "235B, 256 H100: ep 32 · pp 8 19.7 s, ep 8 · pp 32 inside nodes 24.2 s; DeepSeek-V3: GB200 "
        "with ep 64 1.49 "
        "times B200 with ep 8 at 1.11 times the peak",
        "guides, expert parallel", ep_in_domain},
       {"ep-overlap-off", kPlan, "hint: exposed exchange > exposed_min",
        "Overlap the exchange with the compute of another micro-batch. The guides call it future "
        "work; Megatron has it now.",
        "235B +12 %", "guides, communication overlap", ep_overlap_off},
       {"expert-grid", kPlan, "warn: x > 1 (a grid that does not divide is a configuration error)",
        "Set etp to 1: unset means tp. Context ranks count as data ranks of experts; their states "
        "need 6 + 12/De "
        "bytes a parameter.",
        "", "guides, expert parallel", expert_grid},
       {"moe-grouped-gemm-off", kPlan,
        "warn: several experts a rank, each with products of its own",
        "Use one product for all experts of a rank.", "", "guides, expert parallel",
        moe_grouped_gemm_off, "products of a rank's experts are always one launch"},
       {"ep-raise-first", kPlan,
        "hint: states of experts > half of the peak, the run does not fit, 2e is legal",
        "Raise ep before tp or pp.", "GB200 runs ep 64 · pp 4 where B200 needs pp 16",
        "guides, expert parallel", ep_raise_first},
       {"ep-dispatcher", kPlan, "hint: allgather with e − 1 > k",
        "Exchange tokens instead of gathering all.", "", "Megatron's options", ep_dispatcher}}};
}

}  // namespace viaduct::rules
