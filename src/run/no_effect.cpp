#include "run/no_effect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// A configuration as if one of its fields had not been given. One schema serves all queries:
/// building one costs more than a query.
class Alternatives {
 public:
  explicit Alternatives(const RunConfig& config) : config_(config) {}

  /// Null if it is not valid. Valid until the next call.
  const RunConfig* without(const std::string& name) {
    restore();
    changed_ = true;
    // The value that a member has when its group is constructed is the field's default.
    const Field& field = *schema_.find(name);
    if (!field.assign(field.default_value)) return nullptr;
    try {
      resolve(other_);
    } catch (const ConfigError&) {
      return nullptr;
    }
    return &other_;
  }

  /// Why the field does nothing, by its own declaration; "" where it acts.
  std::string idle_reason(const std::string& name) {
    restore();
    const Field& field = *schema_.find(name);
    if (config_.dist.simulated() && field.needs_values())
      return "dist.device = sim: nothing is computed, read or saved";
    return field.idle_reason();
  }

  /// A name whose values that ask for nothing are accepted; no setting of the configuration.
  bool is_planned(const std::string& name) const { return !schema_.find(name)->current; }

  /// Whether the field has the same value without being given.
  bool is_default(const std::string& name) {
    if (without(name) == nullptr) return false;
    const Field& field = *schema_.find(name);
    const Value value = field.current();
    restore();
    return same_value(value, field.current());
  }

  /// Whether a given value is the one that the field has.
  bool is_current(const std::string& name, const Value& given) {
    restore();
    const Field& field = *schema_.find(name);
    const Value value = field.current();
    changed_ = true;
    return field.assign(given) && same_value(value, field.current());
  }

 private:
  void restore() {
    if (changed_) other_ = config_;
    changed_ = false;
  }

  const RunConfig& config_;
  RunConfig other_;
  bool changed_ = true;  // other_ is not config_
  Schema schema_ = run_schema(other_);
};

/// The first rule that says why the field does nothing.
std::string reason_of(const RunConfig& config, const ConfigOutcome& outcome,
                      const std::string& name, Alternatives& alternatives) {
  if (std::string reason = alternatives.idle_reason(name); !reason.empty()) return reason;
  for (const Topic& topic : topics()) {
    for (const NoEffectRule& rule : topic.idle) {
      if (std::find(rule.fields.begin(), rule.fields.end(), name) == rule.fields.end()) continue;
      if (std::string reason = rule.reason(config, outcome); !reason.empty()) return reason;
      const RunConfig* other = rule.same ? alternatives.without(name) : nullptr;
      if (std::string reason = other ? rule.same(config, *other) : ""; !reason.empty())
        return reason;
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> settings_without_effect(const RunConfig& config,
                                                 const ConfigOutcome& outcome) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // and their fields
  Alternatives alternatives(config);
  for (const auto& [name, value] : outcome.given) {
    if (alternatives.is_planned(name)) continue;  // it was accepted because it asks for nothing
    const std::string reason = reason_of(config, outcome, name, alternatives);
    if (reason.empty()) continue;
    // What the files of an adapter say took the place of the given value.
    const bool from_files = config.peft.adapter && name.starts_with("peft.");
    if (from_files ? alternatives.is_current(name, value) : alternatives.is_default(name)) continue;
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == reason; });
    if (at == reasons.end()) at = reasons.insert(at, {reason, {}});
    at->second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : reasons) {
    lines.push_back(fmt::format("{} {} no effect here: {}", fmt::join(names, ", "),
                                names.size() == 1 ? "has" : "have", reason));
  }
  // Where nothing overlaps, the whole table has no effect.
  std::vector<std::string> of_gemms;
  Problems said;  // by validate
  if (gemm_overlap(config, said, &of_gemms) != GemmOverlapTable{})
    lines.insert(lines.end(), of_gemms.begin(), of_gemms.end());
  return lines;
}

}  // namespace viaduct
