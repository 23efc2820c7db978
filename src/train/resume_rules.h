#pragma once
// What it means that a setting is another one when a run goes on from a checkpoint than when it was
// saved.

#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

enum class ResumeChange {
  free,     // meant to change: lengths, intervals, learning rate, layout, kernels
  said,     // allowed, with a warning: the run is not what it would have been
  refused,  // an error: the weights, or the place in the data, would mean something else
};

struct ResumeRule {
  ResumeChange change = ResumeChange::free;
  std::string_view effect;  // what the change does; empty where it is free
};

/// Their change is one only where the data are then read in another order.
inline constexpr std::string_view kRunLength = "train.train_iters",
                                  kRunLengthInSamples = "train.train_samples";

/// Names that are no fields: the files behind them are compared.
inline constexpr std::string_view kDatasetContent = "dataset.content";
inline constexpr std::string_view kTokenizerContent = "tokenizer.content";

/// The rule of a field by its full name ("model.rotary_base"), or of one of the names above.
/// Nothing for a field that nobody thought of: a test finds it.
std::optional<ResumeRule> resume_rule(std::string_view name);

}  // namespace viaduct
