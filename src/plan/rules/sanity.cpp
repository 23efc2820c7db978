// Impossible figures, and runs that are slower than others of their kind.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

/// MFU of published pretraining runs of their kind, of the dense peak of the format of their
/// products, causal count, rows of at most 8k, 5B parameters or more: the 10th and 90th percentile.
struct MfuClass {
  const char* gpu;
  const char* format;
  bool experts;
  double low, high;
};
constexpr MfuClass kClasses[] = {
    {"a100", "bf16", false, 0.39, 0.57}, {"h100", "bf16", false, 0.40, 0.53},
    {"h100", "fp8", false, 0.33, 0.42},  {"h100", "bf16", true, 0.07, 0.42},
    {"h100", "fp8", true, 0.09, 0.26},   {"b200", "fp8", false, 0.30, 0.40},
    {"b200", "fp8", true, 0.05, 0.17},   {"b300", "fp8", true, 0.15, 0.21},
    {"gb200", "fp8", false, 0.32, 0.41}, {"gb200", "fp8", true, 0.16, 0.31},
    {"gb200", "fp4", false, 0.20, 0.25}, {"gb300", "fp8", false, 0.47, 0.52},
    {"gb300", "fp8", true, 0.15, 0.32}};

const MfuClass* class_of(const Figures& f) {
  if (f.length > 8192 || f.parameters_in_all < 5e9) return nullptr;
  for (const MfuClass& one : kClasses)
    if (f.machine->cluster.gpu.name.starts_with(one.gpu) && one.format == f.format &&
        one.experts == f.experts())
      return &one;
  return nullptr;
}

/// The largest part of the step other than compute.
std::pair<std::string, double> largest_loss(const Times& t) {
  std::pair<std::string, double> most{"bubble", t.bubble};
  if (t.host > most.second) most = {"waiting for launches", t.host};
  for (const auto& [axis, seconds] : t.exposed)
    if (seconds > most.second) most = {"exposed communication of " + axis, seconds};
  return most;
}

Finding mfu_low(const Figures& f, const Thresholds&) {
  if (!f.times) return unknown(kNoTimes);
  const MfuClass* one = class_of(f);
  if (one == nullptr)
    return not_applicable("no published runs of this GPU, precision and size to compare with");
  if (f.times->mfu >= one->low)
    return not_applicable(fmt::format("MFU {:.1f} %, published runs of the kind from {:.0f} % on",
                                      100 * f.times->mfu, 100 * one->low));
  const auto [name, seconds] = largest_loss(*f.times);
  return fires(
      Level::warn,
      fmt::format("MFU {:.1f} % is below published runs of the kind, {:.0f} to {:.0f} %; compute "
                  "takes {:.0f} % of the step, then {} {:.1f} %",
                  100 * f.times->mfu, 100 * one->low, 100 * one->high,
                  100 * f.times->share(f.times->compute), name, 100 * f.times->share(seconds)),
      {{"MFU", f.times->mfu, ""}, {"from", one->low, ""}, {"to", one->high, ""}});
}

Finding comm_share(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  const double share = f.times->share(f.times->exposed_in_all());
  if (share <= limits[Limit::comm_high])
    return not_applicable(
        fmt::format("exposed communication is {:.1f} % of the step", 100 * share));
  std::vector<Quantity> values{{"exposed", share, "of the step"}};
  std::string text;
  for (const auto& [axis, seconds] : f.times->exposed) {
    values.push_back({axis, f.times->share(seconds), "of the step"});
    text +=
        fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", axis, 100 * f.times->share(seconds));
  }
  return fires(Level::warn,
               fmt::format("exposed communication is {:.0f} % of the step: {}", 100 * share, text),
               std::move(values));
}

Finding mfu_impossible(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  const double mfu = f.times->mfu;
  if (mfu > limits[Limit::mfu_least] && mfu <= limits[Limit::mfu_most])
    return not_applicable(fmt::format("MFU {:.1f} % of {}", 100 * mfu, f.times->peak.describe()));
  return fires(
      mfu > 1 ? Level::error : Level::warn,
      fmt::format("MFU {:.1f} % of {} cannot be right, or the run is far too small for the "
                  "GPU",
                  100 * mfu, f.times->peak.describe()),
      {{"MFU", mfu, ""}, {"dense peak", 1e12 * f.times->peak.tflops, "FLOP/s"}});
}

Finding tflops_inconsistent(const Figures& f, const Thresholds& limits) {
  if (!f.times) return unknown(kNoTimes);
  const Times& t = *f.times;
  const double tokens = static_cast<double>(f.global_batch) * static_cast<double>(f.length);
  const double of_step = tokens / t.step / f.ranks;
  const double of_peak = t.model_tflops / t.peak.tflops;
  const double apart =
      std::max(std::abs(of_step / t.tokens_per_second - 1), std::abs(of_peak / t.mfu - 1));
  if (apart <= limits[Limit::figures_apart])
    return not_applicable("TFLOP/s, tokens/s, step time and MFU agree");
  return fires(Level::error,
               fmt::format("figures of one run differ by {:.1f} %: {:.4g} s, {:.0f} tokens/s, "
                           "{:.0f} TFLOP/s a GPU, MFU {:.1f} %",
                           100 * apart, t.step, t.tokens_per_second, t.model_tflops, 100 * t.mfu),
               {{"apart", apart, ""}});
}

Finding forced_balance(const Figures& f, const Thresholds&) {
  if (!f.experts()) return not_applicable("the model has no experts");
  if (!f.config.model.moe.moe_router_force_load_balancing)
    return not_applicable("experts are chosen by the router");
  return fires(Level::warn,
               "random numbers choose the experts: a figure of this run is one of forced balance, "
               "and nothing is learned",
               {}, {change({"model.moe_router_force_load_balancing=false"})});
}

Finding record_incomplete(const Figures&, const Thresholds&) {
  return unknown("the record of a run: viaduct report has it");
}

}  // namespace

RuleGroup sanity_rules() {
  return {
      "Sanity",
      {{"mfu-low", kPlan | kRun,
        "warn: MFU below the 10th percentile of published runs of its kind",
        "Begin with the largest part of the step. A fixed 30 % is wrong for experts and FP8.",
        "p10 to p90: H100 BF16 dense 40–53 %, FP8 33–42 %, BF16 experts 7–42 %; A100 BF16 39–57 %",
        "benchmark page", mfu_low},
       {"comm-share", kPlan | kRun, "warn: exposed communication > comm_high",
        "Depending on the axis: less tp, or tp inside the domain, virtual stages, overlap; measure "
        "the network.",
        "", "benchmark page", comm_share},
       {"mfu-impossible", kPlan | kRun, "warn: MFU > mfu_most or < mfu_least; error: > 100 %",
        "Dense peaks only: 1,979 and 3,958 TFLOP/s of H100 are with sparsity.",
        "81 % (llmq-readme-25)", "benchmark page", mfu_impossible},
       {"tflops-inconsistent", kPlan | kRun,
        "error: figures of one record differ by more than figures_apart",
        "Name the count of attention: full is 12.5 % more than causal at 8B, 4.0 % at 405B, with "
        "8k.",
        "", "benchmark page", tflops_inconsistent},
       {"forced-balance", kPlan | kRun, "warn: forced balance of experts",
        "Switch it off except in benchmarks, and label their figures.",
        "natural routing −20 %, −6 %", "Megatron's options", forced_balance},
       {"record-incomplete", kRun,
        "error: a record lacks layout, batch, length or peak; warn: fewer than steady_steps",
        "Record them, and repeat the run.", "", "benchmark page", record_incomplete,
        "it is about the record of a run, which `viaduct report` reads"}}};
}

}  // namespace viaduct::rules
