#pragma once
// A model with a key-value cache: several sequences, each fed its next tokens, on any number of
// tensor and pipeline ranks. It holds weights, but no gradients and no optimizer. What is done with
// the logits is generate.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "model/model.h"
#include "nn/kv_cache.h"
#include "ops/table.h"
#include "pipeline/parallelism.h"
#include "sharding/memory_settings.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// Parts of a resolved run, which outlives the generator.
struct GeneratorSettings {
  const LayerSettings& layers;  // without sequence parallelism
  const Parallelism& parallelism;
  const MemorySettings& memory;
  int64_t positions = 0;  // tokens of the longest sequence
};

class Generator {
 public:
  /// On `device` with the ops of `ops`, which outlive it. `groups`: this rank's communicators; all
  /// ranks of a run build their generators alike. Weights are uninitialised. ConfigError if the
  /// model does not allow so many positions, for context ranks, and for sequence parallelism.
  Generator(Device& device, const OpTable& ops, const ModelConfig& config,
            const GeneratorSettings& settings, ParallelGroups groups = self_groups());

  const Model& model() const { return *model_; }
  /// For loading the weights.
  ParameterStore& store() { return *store_; }
  OpContext context() { return {device_, ops_}; }
  int64_t positions() const { return settings_.positions; }
  /// The replicas of the model that take different prompts.
  Communicator& replicas() const { return groups_.dp(); }

  /// Forgets all sequences; `sequences` empty ones begin.
  void start(int64_t sequences);
  int64_t sequences() const { return cache_->sequences(); }
  /// Tokens that sequence `i` was fed.
  int64_t length(int64_t i) const { return cache_->length(i); }

  /// The next tokens of some sequences.
  using Feed = std::span<const std::vector<int32_t>>;
  /// Takes the next tokens of each sequence (ids[i]; none: it waits) in one pass. Returns, on the
  /// ranks of the last stage, the logits [fed sequences, vocabulary] f32 on the host of the tokens
  /// that follow, softcap applied; elsewhere nothing. ShapeError if nothing is fed, for an id
  /// outside [0, vocabulary), or beyond the positions.
  Tensor feed(Feed ids);

  /// Chooses the token that follows sequence `i` from its logits.
  using Choose = FunctionRef<int32_t(int64_t i, std::span<const float> logits)>;
  /// `feed`, and what `choose` makes of its logits: a token for each fed sequence in order, the
  /// same on all ranks of the replica. `choose` is called on one rank, from several threads.
  std::vector<int32_t> step(Feed ids, Choose choose);

  /// Makes room as feeding up to `tokens` tokens of each sequence would, and counts them as fed:
  /// for the dry run, which computes nothing.
  void skip_to(int64_t tokens);

 private:
  Batch batch_of(Feed ids);
  Tensor logits_of(RankContext& context, const HeadSegment& head, const Batch& batch,
                   const Tensor& stream, Feed ids);

  Device& device_;
  const OpTable& ops_;
  GeneratorSettings settings_;
  ParallelGroups groups_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<KeyValueCache> cache_;
};

}  // namespace viaduct
