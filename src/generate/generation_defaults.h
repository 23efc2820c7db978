#pragma once
// How the makers of a model want it to be sampled: its generation_config.json.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/tokenizer_files.h"
#include "generate/sampling.h"

namespace viaduct {

/// Sampling options of which some are not given.
struct GivenSampling {
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k;

  bool any() const { return temperature || top_p || repetition_penalty || top_k; }
  /// These; where they are missing, those of `otherwise`.
  SamplingOptions over(const SamplingOptions& otherwise) const;
};

struct GenerationDefaults {
  GivenSampling sampling;
  std::optional<int64_t> max_new_tokens;
  std::string where;  // the file, for messages; empty without one
};

/// Of the files of a model: `do_sample` false is temperature 0. Values that are null count as
/// missing. IoError for a file that is not a JSON object or has values of other types; ConfigError
/// with the file's name for values that are out of range.
GenerationDefaults read_generation_defaults(const TokenizerFiles& files);

/// "temperature 0.7, top-k 20, top-p 0.8", "greedy": without what has no effect.
std::string sampling_text(const SamplingOptions& sampling);

}  // namespace viaduct
