// Profiling windows, and what happens on more GPUs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

bool inside(int64_t interval, int64_t begin, int64_t end) {
  return interval > 0 && end / interval > begin / interval;
}

Finding profile_window(const Figures& f, const Thresholds&) {
  const ProfilingConfig& p = f.config.profiling;
  if (!p.trace && !p.record_memory_history) return not_applicable("nothing is profiled");
  std::vector<std::string> faults;
  const int64_t steps = p.profile_step_end - p.profile_step_start;
  if (p.profile_step_start < 10)
    faults.push_back(
        fmt::format("it begins at step {}, before steps are steady", p.profile_step_start));
  if (steps > 10) faults.push_back(fmt::format("it has {} steps", steps));
  if (f.config.validation.evaluates() &&
      inside(f.config.validation.eval_interval, p.profile_step_start, p.profile_step_end))
    faults.emplace_back("an evaluation is inside");
  if (f.config.checkpoint.save &&
      inside(f.config.checkpoint.save_interval, p.profile_step_start, p.profile_step_end))
    faults.emplace_back("a checkpoint is inside");
  if (!faults.empty()) {
    std::string text = "the window of the profile: " + faults.front();
    for (size_t i = 1; i < faults.size(); ++i) text += ", " + faults[i];
    return fires(Level::warn, text,
                 {{"first step", static_cast<double>(p.profile_step_start), ""},
                  {"steps", static_cast<double>(steps), ""}},
                 {change({"profiling.profile_step_start=10", "profiling.profile_step_end=13"})});
  }
  const auto profiled = static_cast<int>(p.profile_ranks.size());
  if (f.ranks > 8 && profiled == f.ranks)
    return fires(Level::hint,
                 fmt::format("all {} ranks are profiled; one a stage shows as much", f.ranks),
                 {{"ranks", static_cast<double>(profiled), ""}});
  if (const int stages = f.encoder_stages() + f.pp; profiled < stages)
    return fires(Level::hint,
                 fmt::format("{} of {} stages {} a profiled rank", profiled, stages,
                             profiled == 1 ? "has" : "have"),
                 {{"ranks", static_cast<double>(profiled), ""}});
  return not_applicable(
      fmt::format("{} from step {} on", counted(steps, "step"), p.profile_step_start + 1));
}

Finding scale_few_microbatches(const Figures& f, const Thresholds& limits) {
  const int64_t most = f.pp > 1 ? 2 * f.pp - 1 : 2;
  if (f.shards() == 1) return not_applicable("there is one data rank");
  if (f.micro_batches > most)
    return not_applicable(fmt::format("{} micro-batches give time to overlap", f.micro_batches));
  if (!f.times) return unknown(kNoTimes);
  const double exposed = f.times->share(f.times->exposed_of(f.data_axis()));
  if (exposed <= limits[Limit::exposed_min])
    return not_applicable(
        fmt::format("exposed communication of data ranks is {:.1f} %", 100 * exposed));
  std::vector<Advice> advice{
      change({"ddp.grad_reduce_in_fp32=false"}),
      change(
          {fmt::format("ddp.bucket_size={}", 2 * f.config.ddp.bucket_size.value_or(40'000'000))})};
  if (f.shards() % 2 == 0 && !f.fully_sharded)
    advice.push_back(change({"ddp.num_distributed_optimizer_instances=2"}));
  return if_gain(Level::warn,
                 fmt::format("{} little to hide communication of {} data ranks: exposed {:.1f} %",
                             counted(f.micro_batches, "micro-batch leaves", "micro-batches leave"),
                             f.shards(), 100 * exposed),
                 {{"micro-batches", static_cast<double>(f.micro_batches), ""},
                  {"exposed", exposed, "of the step"}},
                 std::move(advice));
}

Finding scale_batch_limit(const Figures& f, const Thresholds&) {
  if (f.dp == 1) return not_applicable("there is one data rank");
  if (f.micro_batches > 1)
    return not_applicable(fmt::format("{} micro-batches: up to {} data ranks", f.micro_batches,
                                      f.global_batch / f.micro_batch));
  return fires(
      Level::warn,
      fmt::format("each of {} data ranks has one micro-batch of {}: more GPUs need more tp, cp or "
                  "pp, or more than {} rows",
                  f.dp, f.micro_batch, f.global_batch),
      {{"most data ranks", static_cast<double>(f.global_batch) / static_cast<double>(f.micro_batch),
        "ranks"}},
      {change({fmt::format("train.global_batch_size={}", 2 * f.global_batch)})});
}

Finding scale_efficiency(const Figures& f, const Thresholds&) {
  if (!f.times) return unknown(kNoTimes);
  Finding finding =
      fires(Level::warn,
            fmt::format("on {} GPUs with twice the rows, tokens/s a GPU change from {:.0f}",
                        2 * f.ranks, f.times->tokens_per_second),
            {{"tokens/s", f.times->tokens_per_second, "a GPU"}},
            {change({fmt::format("dist.ranks={}", 2 * f.ranks),
                     fmt::format("train.global_batch_size={}", 2 * f.global_batch)})});
  finding.needs_slower = true;
  return finding;
}

Finding scale_cost(const Figures& f, const Thresholds&) {
  (void)f;
  return not_applicable(
      "one number of GPUs: viaduct plan --model with several --ranks and --tokens gives days, "
      "GPU-hours and cost");
}

Finding goodput(const Figures& f, const Thresholds&) {
  if (!f.times) return unknown(kNoTimes);
  const double days = f.times->step * static_cast<double>(f.config.train.train_iters) / 86400;
  if (days <= 1)
    return not_applicable(fmt::format("the run takes {}", format_seconds(86400 * days)));
  // Meta, Llama 3 (arXiv 2407.21783, section 3.3.4): 419 interruptions in 54 days on 16,384 GPUs.
  const double hours = 54.0 * 24 / 419 * 16384 / f.ranks;
  const double checkpoint = 12 * f.parameters_in_all / f.ranks / 1e9;  // seconds, at 1 GB/s a rank
  const double every = std::sqrt(2 * checkpoint * hours * 3600);
  const double lost = checkpoint / every + every / 2 / (hours * 3600);
  return fires(
      Level::note,
      fmt::format("{:.1f} days without failures; with one in {:.0f} h and checkpoints of "
                  "{:.0f} s, save every {:.0f} s ({}) and lose {:.1f} %",
                  days, hours, checkpoint, every,
                  counted(std::max<int64_t>(1, std::llround(every / f.times->step)), "step"),
                  100 * lost),
      {{"days", days, ""},
       {"between failures", hours, "hours"},
       {"save every", every, "s"},
       {"lost", lost, ""}},
      {change({fmt::format("checkpoint.save_interval={}",
                           std::max<int64_t>(1, std::llround(every / f.times->step)))})});
}

}  // namespace

RuleGroup scaling_rules() {
  return {
      "Profiling and scaling out",
      {{"profile-window", kPlan,
        "warn: the window begins before step 10, has more than 10 steps, or an evaluation or "
        "checkpoint; hint: not one rank of each stage, or all of more than 8",
        "Steady steps, one rank a stage.", "", "guides, profiling", profile_window},
       {"scale-few-microbatches", kPlan, "warn: n ≤ 2 (n < 2p with stages), exposed > exposed_min",
        "BF16 reduction, larger buckets, instances.",
        "175B, 256 → 3,072 H100, n 128 → 16: −25 %; 405B, 512 → 8,192: −11 %", "guides, at scale",
        scale_few_microbatches},
       {"scale-batch-limit", kPlan,
        "warn: n = 1 (a batch that does not divide is a configuration error)",
        "More GPUs only by tp, cp, pp or more rows.", "", "guides, at scale", scale_batch_limit},
       {"scale-efficiency", kPlan | kRun,
        "warn: tokens/s a GPU on twice the GPUs and rows < weak_scaling of now",
        "Search again for each number of GPUs.",
        "batch a GPU fixed, 64 → 1,024: 70B −1.6 % in BF16 (dgxc25.02-031, dgxc25.02-035), −3.4 % "
        "in FP8; sharded Llama-2 70B in FP8 −15 %",
        "deployment summary", scale_efficiency},
       {"scale-cost", kPlan, "note: several numbers of GPUs",
        "Cost is GPU-hours times price, computed again.", "", "deployment summary", scale_cost,
        "`viaduct plan --model` with several `--ranks` and `--tokens` prints the table"},
       {"goodput", kPlan, "note: the run takes more than a day",
        "Days include failures: save every √(2·t·MTBF). Failures as published for 16,384 H100, "
        "checkpoints at 1 GB/s a rank.",
        "405B: 15T tokens in 30.84M GPU-hours are 0.89 of the published rate", "benchmark page",
        goodput}}};
}

}  // namespace viaduct::rules
