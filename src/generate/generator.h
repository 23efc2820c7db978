#pragma once
// A model with a key-value cache: several sequences, each fed its next tokens, on any number of
// tensor, expert and pipeline ranks. It holds weights, but no gradients and no optimizer. What is
// done with the logits is generate.h.
//
// Tensor ranks that cut the stream (sequence_parallel; needed where the model has experts, which
// must not get a token twice) hold the same number of tokens, so a pass has up to tp − 1 tokens of
// filling after those that were fed: their results are not used, and the cache drops them. Replicas
// that share experts make their passes together: each feeds its own tokens, and one without tokens
// feeds filling (`keep_up`).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "data/image_batch.h"
#include "generate/adapted_model.h"
#include "model/model.h"
#include "model/segment_hooks.h"
#include "nn/context.h"
#include "nn/cross_cache.h"
#include "nn/kv_cache.h"
#include "ops/table.h"
#include "pipeline/parallelism.h"
#include "sharding/memory_settings.h"
#include "sharding/parameter_store.h"

namespace viaduct {

struct PassTokens;

/// Puts the images whose tokens are in a pass into its batch: rows of the vision tower, and their
/// places in the text (engine/image_rows.h). ShapeError where tokens and images do not fit.
using UploadImages =
    std::function<void(Device&, const PassTokens&, const ImageBatch&, Batch& batch)>;

/// Parts of a resolved run, which outlives the generator.
struct GeneratorSettings {
  const LayerSettings& layers;
  const Parallelism& parallelism;
  const MemorySettings& memory;
  int64_t positions = 0;  // tokens of the longest sequence; of a decoder behind an encoder
  UploadImages upload_images = {};  // of a model that reads images
};

/// A model whose weights belong to someone else, such as a run that trains it.
struct BorrowedModel {
  const Model& model;
  /// For forwards without gradients; what it refers to outlives the generator.
  RankContext context;
  /// That a walk over the model must call for each segment.
  std::vector<SegmentHooks*> hooks = {};
};

class Generator {
 public:
  /// On `device` with the ops of `ops`, which outlive it. `groups`: this rank's communicators; all
  /// ranks of a run build their generators alike. Weights are uninitialised. ConfigError if the
  /// model does not allow that many positions, for context ranks, for experts and tensor ranks
  /// without sequence parallelism, and for replicas that would have to gather equal numbers of
  /// tokens.
  Generator(Device& device, const OpTable& ops, const ModelConfig& config,
            const GeneratorSettings& settings, ParallelGroups groups = self_groups());
  /// Over a borrowed model, whose replicas all feed the same sequences and choose the same tokens:
  /// their weights may be shards. It becomes invalid when the weights change. ConfigError for
  /// context ranks.
  Generator(const BorrowedModel& borrowed, const GeneratorSettings& settings,
            ParallelGroups groups);

  const Model& model() const { return *model_; }
  /// For loading the weights; only of a generator that has its own.
  ParameterStore& store() { return *store_; }
  OpContext context() { return {device_, ops_}; }

  /// Adds the model with an adapter, which shares the weights of this one; returns its number, 1,
  /// 2, … in order. ConfigError where replicas share experts: the rows of one adapter would meet
  /// another's.
  int64_t add_adapter(const AdapterSettings& adapters);
  int64_t adapters() const { return static_cast<int64_t>(adapted_.size()); }
  /// The weights of adapter `number` that are its own, for loading; null where this rank has none.
  ParameterStore* adapter_store(int64_t number) { return adapted(number).weights().own(); }
  /// The model of the next passes: that of an adapter, or 0: this one. What is cached is another
  /// model's if that changes: then all sequences are emptied, and true is returned. ShapeError for
  /// a number that there is not.
  bool use(int64_t number);

  int64_t positions() const { return settings_.positions; }
  /// The replicas of the model that take different prompts.
  Communicator& replicas() const { return groups_.dp(); }

  /// The next tokens of some sequences.
  using Feed = std::span<const std::vector<int32_t>>;
  /// Drops all sequences and starts `sequences` empty ones.
  void start(int64_t sequences);
  /// Of a model with an encoder: starts an empty sequence for each input, which is the encoder's,
  /// and is encoded in the pass that feeds the first tokens of the sequence. ShapeError for a model
  /// without an encoder, for an empty input, and for an id outside [0, vocabulary).
  void start_with(Feed inputs);
  /// Of a model that reads images: those of the first tokens that the empty sequence `i` is fed,
  /// which are in one pass; none takes back what was shown. ShapeError for a model that reads none.
  void show(int64_t i, ImageBatch images);
  int64_t sequences() const { return cache_->sequences(); }
  /// Number of tokens that sequence `i` was fed.
  int64_t length(int64_t i) const { return cache_->length(i); }
  /// Drops all but the first `tokens` tokens of sequence `i`. ShapeError if it has fewer.
  void truncate(int64_t i, int64_t tokens);

  /// Feeds the next tokens of each sequence (ids[i]; none: it waits) in one pass. Returns, on the
  /// ranks of the last stage, the logits [fed sequences, vocabulary] f32 on the host of the tokens
  /// that follow, softcap applied; elsewhere nothing. ShapeError if nothing is fed, for an id
  /// outside [0, vocabulary), beyond the positions, or, of a model with an encoder, without
  /// start_with.
  Tensor feed(Feed ids);

  /// Chooses the token that follows sequence `i` from its logits.
  using Choose = FunctionRef<int32_t(int64_t i, std::span<const float> logits)>;
  /// `feed`, then `choose` on its logits: returns a token for each fed sequence in order, the same
  /// on all ranks of the replica. `choose` is called on one rank, from several threads.
  std::vector<int32_t> step(Feed ids, Choose choose);

  /// Takes part in the next pass of the other replicas without tokens of its own. False if none of
  /// them makes a pass: all replicas are in this call, or none shares experts with another. Every
  /// rank of a replica that has nothing to feed calls this until it is false.
  bool keep_up();

  /// Makes room as feeding up to `tokens` tokens of each sequence would, and counts them as fed:
  /// for the dry run, which computes nothing.
  void skip_to(int64_t tokens);

 private:
  /// The tokens of a pass: those that were fed, sequence after sequence, then the filling, behind
  /// those of the sequence `filled`.
  struct Pass {
    Batch batch;
    int64_t filled = 0, filling = 0;
  };
  Pass pass_of(Feed ids);
  /// For the pass of these tokens, of which `batch` is made: the encoder's rows, where sequences
  /// begin, and what the decoder's tokens see of all inputs.
  std::shared_ptr<const EncoderRows> encoder_rows_of(Feed ids, const PassTokens& tokens,
                                                     const Batch& batch);
  /// Gives the batch of a pass the images of the sequences that begin in it.
  void add_images(Feed ids, const PassTokens& tokens, Batch& batch);
  void check_id(int32_t id) const;
  AdaptedModel& adapted(int64_t number);
  /// The context of a pass of the model in use, and that model.
  RankContext pass_context();
  const Model& model_in_use() const;
  /// Runs a pass; logits as `feed`.
  Tensor run(Feed ids);
  /// Tells the other replicas whether this one has tokens to feed; returns whether any has.
  bool announce(bool feeds);
  bool cuts_stream() const { return settings_.layers.sequence_parallel && groups_.tp().size() > 1; }
  int64_t stream_parts() const { return cuts_stream() ? groups_.tp().size() : 1; }
  int64_t stream_part() const { return cuts_stream() ? groups_.tp().rank() : 0; }
  /// Global numbers of the decoder's blocks that this rank holds, and its heads of keys.
  std::vector<int64_t> blocks() const;
  int64_t kv_heads() const;
  /// Maximum tokens of filling in a pass.
  int64_t room() const { return cuts_stream() ? groups_.tp().size() : together_ ? 1 : 0; }
  Tensor logits_of(RankContext& context, const HeadSegment& head, const Batch& batch,
                   const Tensor& stream, Feed ids);

  Device& device_;
  const OpTable& ops_;
  GeneratorSettings settings_;
  ParallelGroups groups_;
  bool together_ = false;  // replicas share experts, so that all of them make each pass
  std::unique_ptr<Model> own_model_;
  std::unique_ptr<ParameterStore> store_;
  std::optional<BorrowedModel> borrowed_;  // instead of these two
  const Model* model_ = nullptr;
  MagnitudeFactors factors_;  // of the own model's adapter
  std::vector<std::unique_ptr<AdaptedModel>> adapted_;
  int64_t in_use_ = 0;  // one of these, or 0
  std::unique_ptr<KeyValueCache> cache_;
  // With an encoder, after start_with.
  std::vector<std::vector<int32_t>> inputs_;
  std::unique_ptr<CrossCache> cross_;
  std::vector<ImageBatch> images_;  // of each sequence, until its first tokens are fed
};

}  // namespace viaduct
