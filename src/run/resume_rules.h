#pragma once
// Rules for what changed between saving a checkpoint and resuming from it: of settings, whose
// fields say it themselves (config/resume_rule.h), and of the files that a run reads.

#include <optional>
#include <string_view>

#include "config/resume_rule.h"
#include "config/schema.h"

namespace viaduct {

/// Their change matters only if it changes the order of the data.
inline constexpr std::string_view kRunLength = "train.train_iters",
                                  kRunLengthInSamples = "train.train_samples";

/// Names that are not fields: the files that they stand for are compared.
inline constexpr std::string_view kDatasetContent = "dataset.content";
inline constexpr std::string_view kTokenizerContent = "tokenizer.content";

/// The rule of a field by its full name ("model.rotary_base"), or of one of the names above.
/// Nothing for a name without one.
std::optional<ResumeRule> resume_rule(const Schema& schema, std::string_view name);

}  // namespace viaduct
