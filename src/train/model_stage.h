#pragma once
// A rank's part of the model as what a pipeline schedule runs: micro-batches of one step through
// the chunks of layers held here, each with a saved store of its own until its backward.

#include <deque>
#include <map>

#include "base/function_ref.h"
#include "model/model.h"
#include "pipeline/stage_program.h"
#include "train/phase_timer.h"

namespace viaduct {

class ModelStage final : public StageProgram {
 public:
  /// Micro-batch `i`, on the device; asked for once each, in ascending order, when it is first
  /// needed.
  using BatchAt = FunctionRef<Batch(int64_t i)>;
  using ChunkCall = FunctionRef<void(int chunk)>;

  /// All references outlive the stage, which lives for a step. `begin_chunk` is called as
  /// StageProgram's. Who keeps gradients counts contributions, so last_gradient tells nobody.
  /// Messages are in `message_format`, whatever that of activations. The weight gradient of the
  /// head waits for `finish_deferred` in the first `deferred_micro_batches` (0: in none); the
  /// schedule does not split their backward.
  ModelStage(const Model& model, RankContext& context, DType message_format, BatchAt batch_at,
             ChunkCall begin_chunk, int64_t deferred_micro_batches, PhaseSeconds& phases);

  TensorSet forward(int64_t micro_batch, int chunk, TensorSet in) override;
  TensorSet backward(int64_t micro_batch, int chunk, TensorSet d_out) override;
  TensorSet backward_input(int64_t micro_batch, int chunk, TensorSet d_out) override;
  void backward_weight(int64_t micro_batch, int chunk) override;
  /// After the schedule, in the order of the backwards: the weight gradients that waited. The last
  /// stage is done first, so this fills the time in which the others drain.
  void finish_deferred();
  void last_gradient(int) override {}
  void begin_chunk(int chunk) override { begin_chunk_(chunk); }
  /// The residual stream [stream tokens, H].
  std::vector<EdgeTensor> edge(int64_t micro_batch) override;
  Tensor allocate(const EdgeTensor& tensor, Flow flow) override;

 private:
  struct MicroBatch {
    Batch batch;
    size_t unfinished = 0;                 // chunks whose backward is to come
    std::map<int, SavedStore> saved = {};  // by chunk
  };
  /// A backward whose weight gradient of the head is to come.
  struct Deferred {
    Batch batch;
    SavedStore saved;
  };
  /// Says in the record what runs.
  RecordScope phase(std::string_view name, int64_t micro_batch, int chunk) const;
  /// Uploads the micro-batches up to this one that are not here yet.
  void upload_until(int64_t micro_batch);
  MicroBatch& at(int64_t micro_batch);
  /// What goes out, and what came in, in the format of the other side.
  TensorSet message(const TensorSet& made);
  TensorSet stream(const TensorSet& received, MemoryTag tag);
  void finish(int64_t micro_batch, int chunk);

  const Model& model_;
  RankContext& context_;
  DType message_format_;
  BatchAt batch_at_;
  ChunkCall begin_chunk_;
  int64_t deferred_micro_batches_;
  PhaseSeconds& phases_;
  std::vector<int64_t> stream_tokens_;  // of each uploaded micro-batch
  std::map<int64_t, MicroBatch> open_;  // from first need to the end of the last backward
  std::deque<Deferred> deferred_;
};

}  // namespace viaduct
