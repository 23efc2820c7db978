#pragma once
// What a change of a setting means when a run resumes from a checkpoint that was saved with the
// old value. Each field says it where it is declared, `.on_resume(…)`, or inherits it from its
// group: new fields of the architecture are refused. Groups whose fields differ (data, adapters)
// have no rule, so that a new one needs a decision (tests/unit/run/resume_rules_test.cpp).

#include <string_view>

namespace viaduct {

enum class ResumeChange {
  free,     // meant to change: lengths, intervals, learning rate, layout, kernels
  said,     // allowed, with a warning: the run differs from an uninterrupted one
  refused,  // an error: the weights, or the position in the data, would be invalid
};

struct ResumeRule {
  ResumeChange change = ResumeChange::free;
  std::string_view effect;    // the change's effect; empty if it is free
  bool other_shapes = false;  // no checkpoint can be read after it, allowed or not
};

namespace resume {

constexpr ResumeRule said(std::string_view effect) {
  return {ResumeChange::said, effect};
}
constexpr ResumeRule refused(std::string_view effect) {
  return {ResumeChange::refused, effect};
}

inline constexpr ResumeRule free;
inline constexpr ResumeRule other_model = refused("the weights were trained with the old value");
inline constexpr ResumeRule other_shapes = {ResumeChange::refused,
                                            "the checkpoint's tensors have other shapes", true};
inline constexpr ResumeRule other_rounding = said("steps round differently from here on");

/// Effects of fields in several folders.
inline constexpr std::string_view other_rows =
    "the position in the data is a number of rows, and these are different rows now";
inline constexpr std::string_view other_targets = "which tokens predict which changes from here on";

}  // namespace resume
}  // namespace viaduct
