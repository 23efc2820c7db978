// Pipeline stages, virtual stages, and where the axes lie on the cluster.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

std::string bytes(double value) {
  return format_bytes(static_cast<int64_t>(value));
}

/// Virtual stages that divide the layers, above the present number; ascending.
std::vector<int> more_virtual_stages(const Figures& f) {
  std::vector<int> found;
  const int64_t counted = f.model.layers +
                          (f.config.pipeline.account_for_embedding_in_pipeline_split ? 1 : 0) +
                          (f.config.pipeline.account_for_loss_in_pipeline_split ? 1 : 0);
  for (int v = f.vpp + 1; v <= counted / f.pp; ++v)
    if (counted % (int64_t{1} * f.pp * v) == 0) found.push_back(v);
  return found;
}

/// The bubble of equal stages with `chunks` chunks each, as a share of the work of one. Stages of
/// an encoder have one chunk, and the decoder gets micro-batches no faster than they make them:
/// where such a stage computes longer than a chunk, chunks shorten nothing any more
/// (docs/parallelism.md, In front of virtual stages). Needs times if there are some.
double ideal_bubble(const Figures& f, double chunks) {
  const double share = f.encoder_stages() > 0 ? f.encoder_share() : 0;
  return (f.encoder_stages() * share + (f.pp - 1) * std::max(1 / chunks, share)) /
         static_cast<double>(f.micro_batches);
}

Finding pp_without_vpp(const Figures& f, const Thresholds& limits) {
  if (f.pp == 1 || f.vpp > 1) return not_applicable("pp = 1, or there are virtual stages");
  if (f.config.pipeline.pipeline_schedule != PipelineOrder::one_f_one_b)
    return not_applicable("the schedule has one chunk a stage");
  const std::vector<int> legal = more_virtual_stages(f);
  if (f.model.layers / f.pp < 2 || legal.empty())
    return not_applicable("a stage's layers cannot be divided");
  if (f.micro_batches < f.pp)
    return not_applicable(
        fmt::format("{} fewer than {} stages",
                    counted(f.micro_batches, "micro-batch is", "micro-batches are"), f.pp));
  if (!f.times) return unknown(kNoTimes);
  const double bubble = f.times->share(f.times->bubble);
  if (bubble <= limits[Limit::bubble_high])
    return not_applicable(fmt::format("the bubble is {:.1f} % of the step", 100 * bubble));
  const double divides = ideal_bubble(f, 1) / ideal_bubble(f, legal.back());
  if (divides <= 1)
    return not_applicable(fmt::format(
        "a stage of the encoder computes {:.2f} times as long as one of the decoder, whose virtual "
        "stages would wait for it",
        f.encoder_share()));
  std::vector<Advice> advice{with_sizes(f, f.tp, f.cp, f.pp, legal.back())};
  if (legal.size() > 1) advice.push_back(with_sizes(f, f.tp, f.cp, f.pp, legal.front()));
  return if_gain(
      Level::warn,
      fmt::format(
          "the bubble of {} stages is {:.1f} % of the step; {} virtual stages divide the ideal one "
          "by {:.3g}, for {:.2f} times the activations in flight",
          f.encoder_stages() + f.pp, 100 * bubble, legal.back(), divides,
          1 + (f.pp - 1.0) / (f.pp * legal.back())),
      {{"bubble", bubble, "of the step"},
       {"virtual stages", static_cast<double>(legal.back()), ""}},
      std::move(advice));
}

Finding pp_over_tp(const Figures& f, const Thresholds&) {
  if (f.tp == 1) return not_applicable("tp = 1");
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  const TensorLimit limit = tensor_limit(f);
  if (f.tp != f.machine->cluster.domain && f.tp <= limit.ranks)
    return not_applicable(
        fmt::format("tp {} is below the domain and at most {:.1f}", f.tp, limit.ranks));
  return if_gain(Level::hint,
                 fmt::format("tp {} fills the domain or passes {:.1f}, up to which {} hides its "
                             "communication: half of "
                             "it as pipeline stages may be faster",
                             f.tp, limit.ranks, limit.product),
                 {{"tp that hides", limit.ranks, "ranks"}, {"peak", f.peak(), "bytes"}},
                 {with_sizes(f, f.tp / 2, f.cp, 2 * f.pp)});
}

Finding vpp_too_large(const Figures& f, const Thresholds& limits) {
  if (f.vpp == 1) return not_applicable("there are no virtual stages");
  if (f.encoder_stages() > 0 && !f.times) return unknown(kNoTimes);
  const double ideal = ideal_bubble(f, f.vpp);
  // What half as many would add: all of the bubble, if no encoder is in front.
  const double added = ideal_bubble(f, f.vpp / 2.0) - ideal;
  if (added >= limits[Limit::bubble_low])
    return not_applicable(
        fmt::format("half as many would add {:.1f} % of a step to the ideal bubble", 100 * added));
  if (!f.times) return unknown(kNoTimes);
  const double p2p = f.times->exposed_of("pp");
  // Of the bubble, what v = 1 would have that chunks divide.
  const double divided = (f.pp - 1.0) / static_cast<double>(f.micro_batches) / ideal;
  const double best = p2p > 0 ? std::sqrt(f.times->bubble * divided / (p2p / f.vpp)) : f.vpp;
  int half = f.vpp / 2;
  while (half > 1 && f.model.layers % (int64_t{1} * f.pp * half) != 0) --half;
  return if_gain(Level::hint,
                 fmt::format("with {} the ideal bubble is {:.2f} %, exposed messages "
                             "are {:.2f} %: fewer "
                             "than {} virtual stages send less (about {:.1f} balance both)",
                             counted(f.micro_batches, "micro-batch", "micro-batches"), 100 * ideal,
                             100 * f.times->share(p2p), f.vpp, best),
                 {{"ideal bubble", ideal, "of the step"},
                  {"exposed pp", f.times->share(p2p), "of the step"},
                  {"balanced", best, "virtual stages"}},
                 {with_sizes(f, f.tp, f.cp, f.pp, half)});
}

Finding pp_head_imbalance(const Figures& f, const Thresholds& limits) {
  if (f.pp == 1) return not_applicable("pp = 1");
  const PipelineConfig& p = f.config.pipeline;
  if (p.account_for_loss_in_pipeline_split || p.num_layers_in_last_pipeline_stage ||
      p.pipeline_model_parallel_layout)
    return not_applicable("the split of layers accounts for the output layer");
  const double head = static_cast<double>(f.model.vocabulary * f.model.hidden) / block_elements(f);
  if (head <= limits[Limit::head_layers])
    return not_applicable(fmt::format("the output layer is as large as {:.2f} blocks", head));
  if (!f.times) return unknown(kNoTimes);
  const auto stages = std::span(f.times->stage_compute)
                          .subspan(static_cast<size_t>(f.encoder_stages()));  // the decoder's
  const bool encoder = f.model.vision.any() || f.model.encoder.any();
  if (encoder && f.encoder_stages() == 0 && std::ranges::max_element(stages) == stages.begin())
    return not_applicable("the slowest stage is the one with the encoder (encoder-layout)");
  double sum = 0, most = 0;
  for (const double seconds : stages) sum += seconds, most = std::max(most, seconds);
  const double skew = most * static_cast<double>(stages.size()) / sum - 1;
  if (skew <= limits[Limit::stage_skew])
    return not_applicable(fmt::format("the slowest stage is {:.1f} % above the mean", 100 * skew));
  const int64_t fewer = f.model.layers / f.pp - std::max<int64_t>(1, std::llround(head));
  std::vector<Advice> advice;
  if ((f.model.layers + 2) % (int64_t{1} * f.pp * f.vpp) == 0)
    advice.push_back(change({"model.account_for_loss_in_pipeline_split=true",
                             "model.account_for_embedding_in_pipeline_split=true"}));
  if (fewer > 0)
    advice.push_back(change({fmt::format("model.num_layers_in_last_pipeline_stage={}", fewer)}));
  return if_gain(Level::warn,
                 fmt::format("the slowest stage is {:.1f} % above the mean, and the output layer "
                             "is as large as {:.1f} "
                             "blocks",
                             100 * skew, head),
                 {{"head", head, "blocks"}, {"skew", skew, "of the mean"}}, std::move(advice));
}

Finding pp_few_microbatches(const Figures& f, const Thresholds& limits) {
  if (f.pp == 1) return not_applicable("pp = 1");
  if (!more_virtual_stages(f).empty() && f.vpp == 1 && f.micro_batches >= f.pp)
    return not_applicable("virtual stages come first (pp-without-vpp)");
  if (!f.times) return unknown(kNoTimes);
  const double bubble = f.times->share(f.times->bubble);
  if (bubble <= limits[Limit::bubble_most])
    return not_applicable(fmt::format("the bubble is {:.1f} % of the step", 100 * bubble));
  std::vector<Advice> advice{with_sizes(f, f.tp, f.cp, f.pp / 2)};
  if (f.micro_batch % 2 == 0)
    advice.push_back(change({fmt::format("train.micro_batch_size={}", f.micro_batch / 2)}));
  if (f.vpp == 1) advice.push_back(change({"model.pipeline_schedule=zero_bubble"}));
  return if_gain(Level::warn,
                 fmt::format("a bubble of {:.1f} % is left by {} over {} stages with {}",
                             100 * bubble, counted(f.micro_batches, "micro-batch", "micro-batches"),
                             f.pp, counted(f.vpp, "chunk each", "chunks each")),
                 {{"micro-batches", static_cast<double>(f.micro_batches), ""},
                  {"bubble", bubble, "of the step"}},
                 std::move(advice));
}

Finding axis_order(const Figures& f, const Thresholds&) {
  if (f.pp == 1 || f.dp == 1)
    return not_applicable("both orders are the same with pp = 1 or dp = 1");
  if (!f.machine) return unknown("the domains of fast links: give a cluster");
  // Bytes of the axes whose groups leave their domain.
  const auto crossing = [&](const std::map<std::string, Crossing>& groups) {
    double sum = 0;
    for (const auto& [axis, found] : groups)
      if (found.straddling > 0) sum += f.traffic_of(axis == "dp" ? f.data_axis() : axis).bytes;
    return sum;
  };
  if (f.crossings_in_other_order.empty())
    return not_applicable("the other order is refused for these sizes");
  const double now = crossing(f.crossings), other = crossing(f.crossings_in_other_order);
  if (other >= now)
    return not_applicable(fmt::format(
        "the other order has {} in groups across domains, this one {}", bytes(other), bytes(now)));
  return if_gain(
      Level::warn,
      fmt::format("groups across domains exchange {} a step, {} in the other order of axes",
                  bytes(now), bytes(other)),
      {{"across domains", now, "bytes"}, {"in the other order", other, "bytes"}},
      {change({fmt::format("dist.use_tp_pp_dp_mapping={}", !f.config.dist.use_tp_pp_dp_mapping)})});
}

}  // namespace

RuleGroup pipeline_rules() {
  return {"Pipeline",
          {{"pp-without-vpp", kPlan,
            "warn: p > 1, v = 1, two layers a stage or more, bubble > bubble_high",
            "Use virtual stages; activations in flight grow by 1 + (p − 1)/(p·v).",
            "405B +28 % (titan-t5a, titan-t5b); 7B +9 % at 1.32 times the memory; 235B +10 % at "
            "1.07 times",
            "guides, mapping: pipeline parallel", pp_without_vpp},
           {"pp-over-tp", kPlan,
            "hint: t fills the domain or passes the tp whose communication is hidden",
            "Half as many tensor ranks, and pipeline stages in their place, can be faster.",
            "70B, 12 layers, 8 B200: pp 2 · dp 4 1.51 times tp 8, with 66.6 against 28.3 GiB",
            "guides, mapping: "
            "pipeline parallel",
            pp_over_tp},
           {"vpp-too-large", kPlan,
            "hint: v > 1, (p − 1)/(n·v) < bubble_low, behind stages of an encoder the part of it "
            "that v/2 would add, and v/2 is faster",
            "With many micro-batches fewer virtual stages send less; √(bubble(v=1)/messages(v=1)) "
            "balances both.",
            "235B: vpp 3 → 4 gains 0.4 %", "guides, mapping: pipeline parallel", vpp_too_large},
           {"pp-head-imbalance", kPlan,
            "warn: slowest stage > 1 + stage_skew of the mean, output layer > head_layers blocks, "
            "split does not account "
            "for it",
            "Count the loss as a layer. The output layer costs time, the lookup hardly any; above "
            "1.5 blocks one layer "
            "is too little: give the last stage fewer layers.",
            "", "guides, mapping: pipeline parallel", pp_head_imbalance},
           {"pp-few-microbatches", kPlan,
            "warn: bubble > bubble_most with all virtual stages (v > 1 and n < p is a "
            "configuration error)",
            "Fewer stages, smaller micro-batches, a larger batch, or a schedule without bubble.",
            "zero bubble over 1F1B: +8 %, +13.5 %", "guides, mapping: pipeline parallel",
            pp_few_microbatches},
           {"axis-order", kPlan,
            "warn: the other order of axes has fewer bytes in groups across domains",
            "Put the heavy axes inside the domain and pipeline stages across.", "",
            "deployment summary; benchmark page", axis_order}}};
}

}  // namespace viaduct::rules
