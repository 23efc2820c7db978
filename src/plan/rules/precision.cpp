// FP8: what it gains, and what it needs.

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

constexpr const char* kNoFp8 = "products are not in FP8";

/// Expected speed of FP8 over BF16: share of the BF16 step in products, and how much faster they
/// are. None without times or an FP8 rate.
struct Fp8Gain {
  double share = 0, rate = 1, speed = 1;
};
std::optional<Fp8Gain> fp8_gain(const Figures& f) {
  if (!f.times || !f.machine) return {};
  const auto& measured = f.machine->cluster.gpu.measured_flops;
  const auto& dense = f.machine->cluster.gpu.dense_flops;
  const FormatRates& rates =
      measured.contains("fp8") && measured.contains("bf16") ? measured : dense;
  if (!rates.contains("fp8") || !rates.contains("bf16")) return {};
  Fp8Gain gain{.share = f.times->share(f.times->products),
               .rate = rates.at("fp8") / rates.at("bf16")};
  // The head stays in 16 bits.
  const double blocks = block_elements(f) * static_cast<double>(f.model.layers);
  gain.share *= blocks / (blocks + static_cast<double>(f.model.vocabulary * f.model.hidden));
  gain.speed = 1 / (1 - gain.share + gain.share / gain.rate);
  return gain;
}

Finding moe_fp8_dispatch(const Figures& f, const Thresholds& limits) {
  if (!f.experts() || f.ep == 1) return not_applicable("tokens do not travel to experts");
  if (!f.fp8) return not_applicable(kNoFp8);
  if (const auto& format = f.config.model.moe.moe_dispatch_fwd_dtype)
    return not_applicable(fmt::format("tokens are sent to experts in {}", choice_name(*format)));
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of("ep"));
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(fmt::format("exposed exchange of tokens is {:.1f} %", 100 * exposed));
  return if_gain(
      Level::hint,
      fmt::format("tokens travel to experts in 16 bits, exposed {:.1f} %", 100 * exposed),
      {{"exposed", exposed, "of the step"}},
      {change({"model.moe_token_dispatcher_type=flex", "model.moe_dispatch_fwd_dtype=mxfp8"})});
}

Finding fp8_linear_share(const Figures& f, const Thresholds& limits) {
  if (!f.fp8) return not_applicable(kNoFp8);
  const auto gain = fp8_gain(f);
  if (!gain)
    return unknown(
        "the rate of FP8 products, or the step's times: give a cluster of GPUs with FP8");
  return fires(gain->speed < limits[Limit::fp8_gain] ? Level::warn : Level::note,
               fmt::format("products of blocks take {:.0f} % of the step: FP8 at {:.2f} times "
                           "their rate makes it {:.2f} "
                           "times as fast at most",
                           100 * gain->share, gain->rate, gain->speed),
               {{"share of products", gain->share, "of the step"},
                {"rate", gain->rate, "times"},
                {"speed", gain->speed, "times"}});
}

Finding fp8_host_bound(const Figures& f, const Thresholds& limits) {
  if (!f.fp8) return not_applicable(kNoFp8);
  if (!f.times) return unknown(kNoTimes);
  const double host = f.times->share(f.times->host);
  if (host <= limits[Limit::host_high])
    return not_applicable(fmt::format(
        "waiting for launches is {:.1f} % of the step; a measured gain is in a run's report",
        100 * host));
  return fires(
      Level::warn,
      fmt::format("compute waits {:.1f} % of the step for {} launches, which FP8 does not shorten",
                  100 * host, f.launches),
      {{"host", host, "of the step"}, {"launches", static_cast<double>(f.launches), ""}},
      {change({fmt::format("train.micro_batch_size={}", 2 * f.micro_batch)})});
}

Finding fp8_block_size(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable(kNoFp8);
  if (scaling_of(f.scaling) == Scaling::tensor)
    return not_applicable("there is one scale for each tensor");
  return if_gain(Level::hint,
                 fmt::format("fp8_recipe={} has scales for blocks; one for each tensor is faster "
                             "where its numbers are good enough",
                             choice_name(f.scaling)),
                 {}, {change({"mixed_precision.fp8_recipe=tensorwise"})});
}

Finding fp8_range(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable(kNoFp8);
  const auto gain = fp8_gain(f);
  if (!gain)
    return unknown(
        "the rate of FP8 products, or the step's times: give a cluster of GPUs with FP8");
  // Published pairs on H100: 8B 1.30 to 1.37, 70B up to 1.72, cuts of 405B 1.60.
  if (gain->speed >= 1.19 && gain->speed <= 1.72)
    return not_applicable(fmt::format(
        "the expected gain of {:.2f} is among published ones, 1.19 to 1.72", gain->speed));
  return fires(Level::warn,
               fmt::format("the expected gain of FP8 is {:.2f}; published pairs have 1.19 to 1.72",
                           gain->speed),
               {{"speed", gain->speed, "times"}});
}

Finding fp8_shapes(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable(kNoFp8);
  return not_applicable(
      "sizes that the format does not divide are a configuration error "
      "(src/run/rules/precision.cpp)");
}

Finding fp8_export(const Figures& f, const Thresholds&) {
  if (!f.fp8) return not_applicable(kNoFp8);
  return fires(Level::note,
               "for serving in FP8 export quantized weights (viaduct convert --dtype fp8) and "
               "compare logits with BF16");
}

}  // namespace

RuleGroup precision_rules() {
  return {"Low precision",
          {{"moe-fp8-dispatch", kPlan, "hint: exposed exchange > exposed_min, FP8",
            "Send tokens to experts in MXFP8; results stay BF16.", "", "guides, data types",
            moe_fp8_dispatch},
           {"fp8-linear-share", kPlan, "note: FP8; warn: expected gain < fp8_gain",
            "Gain = 1/(1 − φ + φ/r): φ the share of products, r how much faster they are; small "
            "with small widths and long rows.",
            "0.5B 1.11, 1.5B 1.24, 14B on H100 1.51 (llmq-Pro6000x1-01 and others)",
            "guides, low precision", fp8_linear_share},
           {"fp8-host-bound", kPlan | kRun, "warn: FP8 with waiting for launches > host_high",
            "Fix the host first.",
            "30B-A3B, 16 GB200: 0.97 times BF16 with partial graphs, 1.23 with full ones",
            "guides, low precision; host", fp8_host_bound},
           {"fp8-block-size", kPlan, "hint: scales for blocks where one for each tensor is allowed",
            "One scale for each tensor is faster; numbers decide.",
            "the same layout 1.05 to 1.12 times, LoRA 1.005, once 0.96", "guides, low precision",
            fp8_block_size},
           {"fp8-range", kPlan | kRun, "warn: expected gain outside of published ones",
            "Neither 1.2 to 1.5 times nor 1.5 to 2 times holds in general, and FP8 is not limited "
            "to H100.",
            "H100: 8B 1.30–1.37, 70B 1.32–1.40 (another framework 1.63–1.72), 175B 1.34–1.51, Grok "
            "1.19–1.26; GB200: 405B 1.52–1.53",
            "guides; benchmark page", fp8_range},
           {"fp8-shapes", kPlan, "error: a size is no multiple of 16 (32 with MXFP8)",
            "Pad, or use another recipe.", "", "formats", fp8_shapes,
            "sizes that the format does not divide are a configuration error"},
           {"fp8-export", kPlan, "note: FP8 training",
            "Export quantized weights with scales and compare logits.", "", "deployment summary",
            fp8_export}}};
}

}  // namespace viaduct::rules
