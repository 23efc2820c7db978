#include "plan/rules/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "plan/planning_defaults.h"

namespace viaduct::rules {
namespace {

using Changes = std::map<std::vector<std::string>, ChangedRun>;

/// The verdicts with advice, the most severe first.
std::vector<Verdict*> by_level(std::vector<Verdict>& verdicts) {
  std::vector<Verdict*> order;
  for (Verdict& verdict : verdicts)
    if (verdict.finding.outcome == Outcome::fires && !verdict.finding.advice.empty())
      order.push_back(&verdict);
  std::stable_sort(order.begin(), order.end(), [](const Verdict* a, const Verdict* b) {
    return a->finding.level < b->finding.level;
  });
  return order;
}

void take(const ChangedRun& run, const Figures& f, Advice& advice) {
  advice.predicted = true;
  advice.refused = run.refused;
  if (!run.refused.empty()) return;
  advice.step_seconds = run.step_seconds;
  advice.peak_bytes = run.peak_bytes;
  advice.fits = run.fits;
  if (f.times) advice.step_change = run.step_seconds / f.times->step - 1;
}

/// Fills in what is predicted; false if a change of `finding` was left out.
void predict_all(std::vector<Verdict>& verdicts, const Figures& f,
                 const EvaluationSettings& settings, const PredictChange& predict,
                 Evaluation& result) {
  const double begin = steady_seconds();
  const auto seconds = [&] { return steady_seconds() - begin; };
  const Deadline deadline = Deadline::at(begin + settings.most_seconds);
  const std::string limit = fmt::format("{:.3g} s", settings.most_seconds);
  Changes made;
  for (Verdict* verdict : by_level(verdicts)) {
    for (Advice& advice : verdict->finding.advice) {
      const auto found = made.find(advice.overrides);
      if (found != made.end()) {
        take(found->second, f, advice);
        continue;
      }
      if (result.limit.empty() && result.predictions >= settings.most_predictions)
        result.limit = counted(settings.most_predictions, "change");
      if (result.limit.empty() && seconds() >= settings.most_seconds) result.limit = limit;
      if (!result.limit.empty()) {
        ++result.not_predicted;
        continue;
      }
      try {
        const ChangedRun& run = made[advice.overrides] = predict(advice.overrides, deadline);
        ++result.predictions;
        take(run, f, advice);
      } catch (const DeadlineError&) {
        made.erase(advice.overrides);
        ++result.not_predicted;
        result.limit = limit;
      }
    }
  }
  result.seconds = seconds();
}

/// Whether the change makes a run that fits, or brings one that is too large nearer to it.
bool usable(const Advice& advice, const Figures& f) {
  if (!advice.predicted || !advice.refused.empty()) return false;
  return advice.fits || (f.too_large() && advice.peak_bytes < f.peak());
}

/// Changes that gain come first, by their gain; unusable ones last.
void order(std::vector<Advice>& advice, const Figures& f) {
  std::stable_sort(advice.begin(), advice.end(), [&](const Advice& a, const Advice& b) {
    if (usable(a, f) != usable(b, f)) return usable(a, f);
    if (a.fits != b.fits) return a.fits;
    return usable(a, f) && a.step_change.value_or(0) < b.step_change.value_or(0);
  });
}

void decide(Finding& finding, const Figures& f, const EvaluationSettings& settings) {
  const bool decides =
      finding.decided_by_gain || finding.needs_smaller_peak || finding.needs_slower;
  if (finding.outcome != Outcome::fires) return;
  if (!decides) return order(finding.advice, f);
  if (finding.advice.empty()) {
    finding.outcome = Outcome::unknown;
    finding.text += "; no change that the trainer has could be advised";
    return;
  }
  const bool all = std::all_of(finding.advice.begin(), finding.advice.end(),
                               [](const Advice& a) { return a.predicted; });
  order(finding.advice, f);
  if (finding.needs_smaller_peak || finding.needs_slower) {
    const Advice& first = finding.advice.front();
    if (!first.predicted || !first.refused.empty()) {
      finding.outcome = Outcome::unknown;
      finding.text += first.refused.empty() ? "; not predicted"
                                            : "; the changed run is refused: " + first.refused;
      return;
    }
    const bool holds = finding.needs_smaller_peak ? first.peak_bytes <= f.peak()
                                                  : 1 + first.step_change.value_or(0) >
                                                        1 / settings.limits[Limit::weak_scaling];
    if (holds) return;
    finding.outcome = Outcome::not_applicable;
    finding.text = finding.needs_smaller_peak
                       ? fmt::format("without sharded weights the peak would be {}",
                                     format_bytes(static_cast<int64_t>(first.peak_bytes)))
                       : fmt::format("twice the GPUs keep {:.0f} % of the tokens/s of one",
                                     100 / (1 + first.step_change.value_or(0)));
    return;
  }
  const double least = settings.limits.least_gain();
  const bool gains =
      std::any_of(finding.advice.begin(), finding.advice.end(), [&](const Advice& advice) {
        return usable(advice, f) && (f.too_large() || -advice.step_change.value_or(0) >= least);
      });
  if (gains) return;
  if (!all) {
    finding.outcome = Outcome::unknown;
    finding.text += "; not predicted";
    return;
  }
  const bool any = std::any_of(finding.advice.begin(), finding.advice.end(),
                               [&](const Advice& a) { return usable(a, f); });
  finding.outcome = any ? Outcome::no_gain : Outcome::not_applicable;
  if (!any) {
    const Advice& first = finding.advice.front();
    finding.text += first.refused.empty() ? "; the change does not fit"
                                          : "; the change is refused: " + first.refused;
  }
}

}  // namespace

int Evaluation::count(Outcome outcome) const {
  return static_cast<int>(std::count_if(verdicts.begin(), verdicts.end(), [&](const Verdict& v) {
    return v.finding.outcome == outcome;
  }));
}

Evaluation evaluate_rules(const Figures& figures, const EvaluationSettings& settings,
                          const PredictChange& predict) {
  Evaluation result;
  for (const RuleGroup& group : rule_groups())
    for (const Rule& rule : group.rules)
      result.verdicts.push_back({group.name, rule, rule.check(figures, settings.limits)});
  if (predict) {
    predict_all(result.verdicts, figures, settings, predict, result);
    for (Verdict& verdict : result.verdicts) decide(verdict.finding, figures, settings);
    return result;
  }
  for (Verdict& verdict : result.verdicts) {
    Finding& finding = verdict.finding;
    if (finding.outcome == Outcome::fires && (finding.needs_smaller_peak || finding.needs_slower)) {
      finding.outcome = Outcome::unknown;
      finding.text += "; not predicted";
    }
  }
  return result;
}

PredictChange predict_changes(std::string file, std::vector<std::string> overrides, Cluster cluster,
                              PredictionSettings settings) {
  return [file = std::move(file), overrides = std::move(overrides), cluster = std::move(cluster),
          settings](const std::vector<std::string>& further, const Deadline& deadline) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), further.begin(), further.end());
    ChangedRun run;
    try {
      const Prediction p =
          predict(prepare_run(load_run_config(file, all, planning_defaults(cluster))), cluster,
                  settings, kPlanThreads, deadline);
      run.step_seconds = p.step_seconds;
      run.fits = p.fits;
      for (const StagePrediction& stage : p.stages)
        run.peak_bytes = std::max(run.peak_bytes, static_cast<double>(stage.run.peak.bytes));
    } catch (const ConfigError& error) {
      run.refused = error.problems().front();
    }
    return run;
  };
}

std::string advice_text(const Advice& advice) {
  std::string text = fmt::format("{}", fmt::join(advice.overrides, " "));
  if (!advice.predicted) return text;
  if (!advice.refused.empty()) return text + ": refused, " + advice.refused;
  text += ":";
  if (advice.step_change) text += fmt::format(" step {:+.1f} %,", 100 * *advice.step_change);
  return text + fmt::format(" peak {}{}", format_bytes(static_cast<int64_t>(advice.peak_bytes)),
                            advice.fits ? "" : ", does not fit");
}

}  // namespace viaduct::rules
