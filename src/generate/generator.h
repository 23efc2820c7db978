#pragma once
// Sampling from a model with a key-value cache: the prompt in one pass, then one token at a time.
// One sequence on one device; weights alone, no gradients and no optimizer.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "generate/sampling.h"
#include "model/model.h"
#include "nn/kv_cache.h"
#include "ops/table.h"
#include "sharding/parameter_store.h"

namespace viaduct {

class Generator {
 public:
  /// A model for sequences of up to `capacity` tokens (ConfigError if it does not allow them) on
  /// `device` with the ops of `ops`, which outlive it. Weights are uninitialised.
  Generator(Device& device, const OpTable& ops, const ModelConfig& config,
            const PrecisionRecipe& recipe, int64_t capacity);

  const Model& model() const { return *model_; }
  /// For loading the weights.
  ParameterStore& store() { return *store_; }
  OpContext context() { return {device_, ops_}; }
  int64_t capacity() const { return capacity_; }
  /// Tokens fed since the start or the last `restart`.
  int64_t length() const { return cache_->length(); }

  /// Takes the next tokens of the sequence in one pass; returns the logits [vocabulary] of the
  /// token that follows the last of them, softcap applied. ShapeError if there are none, if an id
  /// is outside [0, vocabulary), or beyond the capacity.
  std::vector<float> feed(std::span<const int32_t> ids);
  /// Forgets the sequence.
  void restart();

 private:
  Batch batch_of(std::span<const int32_t> ids);

  Device& device_;
  const OpTable& ops_;
  PrecisionRecipe recipe_;
  int64_t capacity_;
  ParallelGroups groups_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<KeyValueCache> cache_;
};

struct GenerateOptions {
  SamplingOptions sampling;
  uint64_t seed = 1234;
  int64_t max_new_tokens = 0;
  std::vector<int32_t> stop_tokens;  // end the text; are not part of it
};

enum class StopReason { stop_token, length };

struct Generated {
  std::vector<int32_t> tokens;  // the new ones
  StopReason reason = StopReason::length;
  std::optional<int32_t> stop_token;
};

/// Continues `prompt` (at least one token), from a fresh cache. Calls `token(id)` for each new
/// token as it comes. The same prompt, weights, options and seed give the same tokens. ConfigError
/// if prompt and new tokens exceed the capacity, or for sampling options that are out of range.
Generated generate(Generator& generator, std::span<const int32_t> prompt,
                   const GenerateOptions& options, FunctionRef<void(int32_t id)> token);

}  // namespace viaduct
