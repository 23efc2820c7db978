#pragma once
// Rules for settings that changed between saving a checkpoint and resuming from it.

#include <optional>
#include <string>
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

/// Their change matters only if it changes the order of the data.
inline constexpr std::string_view kRunLength = "train.train_iters",
                                  kRunLengthInSamples = "train.train_samples";

/// Names that are not fields: the files that they stand for are compared.
inline constexpr std::string_view kDatasetContent = "dataset.content";
inline constexpr std::string_view kTokenizerContent = "tokenizer.content";

/// The rule of a field by its full name ("model.rotary_base"), or of one of the names above.
/// Nothing for a field without a rule; a test finds such fields.
std::optional<ResumeRule> resume_rule(std::string_view name);

}  // namespace viaduct
