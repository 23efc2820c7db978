#pragma once
// What a rule finds about a run.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace viaduct::rules {

enum class Level { error, warn, hint, note };
std::string_view level_name(Level level);

/// no_gain: the condition holds, but no advised change is predicted to save enough. unknown: an
/// input of the decision is missing; the text names it.
enum class Outcome { fires, no_gain, not_applicable, unknown };
std::string_view outcome_name(Outcome outcome);

/// A figure that a rule compared.
struct Quantity {
  std::string name;
  double value = 0;
  std::string unit;
};

/// A change of the configuration, and its predicted effect.
struct Advice {
  std::vector<std::string> overrides;  // section.field=value
  bool predicted = false;
  std::string refused;  // why the trainer refuses it
  // Of the changed run, if predicted and not refused:
  double step_seconds = 0, peak_bytes = 0;
  bool fits = false;
  /// Change of the step relative to the unchanged run; below 0: faster. Needs times.
  std::optional<double> step_change;
};

struct Finding {
  Outcome outcome = Outcome::not_applicable;
  Level level = Level::note;
  std::string text;  // one sentence with the figures; the reason, or what is missing
  std::vector<Quantity> values;
  std::vector<Advice> advice;  // alternatives, the preferred one first
  /// It fires only if a change of `advice` is predicted to save enough, or frees memory that the
  /// run needs.
  bool decided_by_gain = false;
  /// It fires only if a change of `advice` is predicted to lower the peak.
  bool needs_smaller_peak = false;
  /// It fires only if the first change of `advice`, whose step has the same work per GPU, is
  /// predicted to take longer than `weak_scaling` allows.
  bool needs_slower = false;
};

inline Finding not_applicable(std::string reason) {
  Finding finding;
  finding.text = std::move(reason);
  return finding;
}
inline Finding unknown(std::string missing) {
  Finding finding;
  finding.outcome = Outcome::unknown;
  finding.text = std::move(missing);
  return finding;
}
/// It fires whatever a change would gain.
inline Finding fires(Level level, std::string text, std::vector<Quantity> values = {},
                     std::vector<Advice> advice = {}) {
  Finding finding;
  finding.outcome = Outcome::fires;
  finding.level = level;
  finding.text = std::move(text);
  finding.values = std::move(values);
  finding.advice = std::move(advice);
  return finding;
}
/// It fires if a change of `advice` gains.
inline Finding if_gain(Level level, std::string text, std::vector<Quantity> values,
                       std::vector<Advice> advice) {
  Finding finding = fires(level, std::move(text), std::move(values), std::move(advice));
  finding.decided_by_gain = true;
  return finding;
}

}  // namespace viaduct::rules
