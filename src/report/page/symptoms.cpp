#include "report/page/symptoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"

namespace viaduct {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

Symptom found(std::string name, bool shown, std::string evidence, std::string advice) {
  return {std::move(name), shown ? SymptomState::shown : SymptomState::absent, std::move(evidence),
          shown ? std::move(advice) : ""};
}

Symptom unknown(std::string name, std::string missing) {
  return {std::move(name), SymptomState::unknown, std::move(missing), ""};
}

Symptom data_loading(const MeasuredSteps& run, const SymptomLimits& limits) {
  const double share = run.data_seconds / run.step_seconds;
  return found("steps wait for data", share > limits.data,
               fmt::format("{} of the median step ({} of {})", percent(share),
                           format_seconds(run.data_seconds), format_seconds(run.step_seconds)),
               "Use more loader threads, cache the index (dataset.path_to_cache), keep the data on "
               "a local disk.");
}

Symptom communication(const MeasuredSteps& run, const SymptomLimits& limits) {
  const double share = run.communication_seconds / run.step_seconds;
  return found("compute waits for communication", share > limits.communication,
               fmt::format("{} of the median step", percent(share)),
               "Compare `viaduct bench collective` with the links' rate; switch overlap on "
               "(ddp.overlap_grad_reduce, ddp.overlap_param_gather, comm_overlap.tp_comm_overlap); "
               "use less tensor parallelism across slow links.");
}

/// Steps that take much longer than the median, and the interval between them, if it is regular.
Symptom slow_steps(const RunLog& log, const MeasuredSteps& run, const SymptomLimits& limits) {
  std::vector<int64_t> slow;
  for (size_t i = 1; i < log.steps.size(); ++i)
    if (log.steps[i].step_seconds > limits.slow_step * run.step_seconds)
      slow.push_back(log.steps[i].step);
  std::map<int64_t, int64_t> intervals;
  for (size_t i = 1; i < slow.size(); ++i) ++intervals[slow[i] - slow[i - 1]];
  const auto most =
      std::max_element(intervals.begin(), intervals.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string evidence = fmt::format("{} of {} took more than {} times the median", slow.size(),
                                     counted(std::ssize(log.steps) - 1, "step"), limits.slow_step);
  if (most != intervals.end() && most->second * 2 > static_cast<int64_t>(slow.size()))
    evidence += fmt::format(", most of them {} apart", counted(most->first, "step"));
  return found("some steps take much longer",
               slow.size() * 100 > log.steps.size() && slow.size() > 1, evidence,
               "Compare the interval with those of checkpoints, evaluation and logging; save "
               "asynchronously (checkpoint.async_save).");
}

Symptom slow_rank(const RunLog& log, const MeasuredSteps& run, const SymptomLimits& limits) {
  std::map<int64_t, int64_t> slowest;
  std::vector<double> beyond;
  for (const LoggedStep& step : log.steps) {
    if (!step.slowest_rank || !step.slowest_seconds) continue;
    ++slowest[*step.slowest_rank];
    beyond.push_back(*step.slowest_seconds / run.step_seconds - 1);
  }
  if (beyond.empty()) return unknown("one rank is slower", "the log has no figures by rank");
  const auto most =
      std::max_element(slowest.begin(), slowest.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const double share = static_cast<double>(most->second) / static_cast<double>(beyond.size());
  const double by = median(beyond);
  return found(
      "one rank is slower", share > 0.8 && by > limits.slow_rank && beyond.size() >= 5,
      fmt::format("rank {} was the slowest in {} of the steps; the slowest takes {} more "
                  "than the median step",
                  most->first, percent(share), percent(std::max(0.0, by))),
      "Always the same rank: its machine (clocks, temperature, other programs) or its part "
      "of the model (uneven stages). Changing ranks: jitter of the hosts.");
}

Symptom hot_experts(const RunLog& log, const SymptomLimits& limits) {
  std::vector<double> loads;
  for (const LoggedStep& step : log.steps)
    if (step.expert_load) loads.push_back(*step.expert_load);
  if (loads.empty())
    return unknown("experts are loaded unevenly", "the log has no loads of experts");
  const double load = median(loads);
  return found("experts are loaded unevenly", load > limits.expert_load,
               fmt::format("the most loaded expert of any layer has {:.2f} equal shares in the "
                           "median step",
                           load),
               "Use a balancing loss (model.moe_aux_loss_coeff) or a selection bias "
               "(model.moe_router_enable_expert_bias); a capacity factor bounds the time.");
}

Symptom not_finite(const RunLog& log) {
  int64_t losses = 0, skipped = 0;
  for (const LoggedStep& step : log.steps) {
    skipped += step.skipped - step.nothing_scored;
    if (!step.loss && !log.simulated && step.skipped == 0) ++losses;
  }
  return found("losses or gradients are not finite", losses + skipped > 0,
               fmt::format("{} without a loss, {} skipped", counted(losses, "step"),
                           counted(skipped, "update")),
               "With FP16 some skips are normal while the loss scale settles. Otherwise look for "
               "the first tensor: `viaduct probe --help`.");
}

Symptom impossible(const RunLog& log) {
  double most = 0;
  for (const LoggedStep& step : log.steps) most = std::max(most, step.mfu.value_or(0));
  if (most == 0) return unknown("faster than the machine can be", "no MFU in the log");
  return found("faster than the machine can be", most > 1,
               fmt::format("highest MFU {}", percent(most)),
               "The peak that MFU is measured against is wrong, or something is counted twice.");
}

Symptom slower_than_planned(const MeasuredSteps& run, const PlannedRun& planned) {
  const double step = run.step_seconds - planned.step_seconds;
  const double waits = run.communication_seconds - planned.communication_seconds;
  const std::string largest = waits > step - waits ? "communication" : "compute and the host";
  return found(
      "slower than planned", step > 0.05 * planned.step_seconds,
      fmt::format("{} planned, {} measured ({:+.1f} %)", format_seconds(planned.step_seconds),
                  format_seconds(run.step_seconds), 100 * step / planned.step_seconds),
      fmt::format("Most of the difference is {} ({:+.1f} % of the planned step waiting "
                  "longer). Slow everywhere in planned proportions: clocks, a power cap, "
                  "or the wrong device in the plan.",
                  largest, 100 * waits / planned.step_seconds));
}

Symptom other_memory(const MeasuredSteps& run, const PlannedRun& planned,
                     const SymptomLimits& limits) {
  const double share =
      static_cast<double>(run.peak_memory_bytes) / static_cast<double>(planned.peak_memory_bytes) -
      1;
  return found("memory differs from the plan", std::abs(share) > limits.memory,
               fmt::format("{} planned, {} measured", format_bytes(planned.peak_memory_bytes),
                           format_bytes(run.peak_memory_bytes)),
               "The plan is exact for its configuration: compare the two configurations first.");
}

}  // namespace

std::vector<Symptom> find_symptoms(const RunLog& log, const std::optional<PlannedRun>& planned,
                                   const SymptomLimits& limits) {
  const MeasuredSteps run = measured_steps(log);
  std::vector<Symptom> all{not_finite(log), impossible(log)};
  if (log.simulated) {
    all.push_back(unknown("everything about speed", "the run was simulated"));
  } else {
    all.push_back(data_loading(run, limits));
    all.push_back(communication(run, limits));
    all.push_back(slow_steps(log, run, limits));
    all.push_back(slow_rank(log, run, limits));
    if (planned)
      all.push_back(slower_than_planned(run, *planned));
    else
      all.push_back(unknown("slower than planned", "no plan was given"));
    all.push_back(unknown("the device waits for the host",
                          "host waits are not in the log; a profile shows them (profiling.md)"));
    all.push_back(unknown("clocks or power are capped", "clocks are not in the log"));
  }
  all.push_back(hot_experts(log, limits));
  if (planned) all.push_back(other_memory(run, *planned, limits));
  std::stable_sort(all.begin(), all.end(),
                   [](const Symptom& a, const Symptom& b) { return a.state < b.state; });
  return all;
}

}  // namespace viaduct
