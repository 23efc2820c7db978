#pragma once
// A rank's part of the model as what a pipeline schedule runs: micro-batches of one step through
// the chunks of layers held here, each with a saved store of its own until its backward.

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

  /// All references outlive the stage, which lives for a step. `begin_chunk` and
  /// `reduce_chunk` are called as StageProgram's. Who keeps gradients counts contributions, so
  /// last_gradient tells nobody. Messages are in `message_format`, whatever that of the stream.
  ModelStage(const Model& model, RankContext& context, DType message_format, BatchAt batch_at,
             ChunkCall begin_chunk, ChunkCall reduce_chunk, PhaseSeconds& phases);

  TensorSet forward(int64_t micro_batch, int chunk, TensorSet in) override;
  TensorSet backward(int64_t micro_batch, int chunk, TensorSet d_out) override;
  TensorSet backward_input(int64_t micro_batch, int chunk, TensorSet d_out) override;
  void backward_weight(int64_t micro_batch, int chunk) override;
  TensorSet backward_but_head(int64_t micro_batch, int chunk, TensorSet d_out) override;
  void head_weight(int64_t micro_batch, int chunk) override;
  void last_gradient(int) override {}
  void begin_chunk(int chunk) override { begin_chunk_(chunk); }
  void reduce_chunk(int chunk) override { reduce_chunk_(chunk); }
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
  struct HeadToCome {
    Batch batch;
    SavedStore saved;
  };
  /// Says in the record what runs.
  RecordScope phase(std::string_view name, int64_t micro_batch, int chunk) const;
  /// Uploads the micro-batches up to this one that are not here yet.
  void upload_until(int64_t micro_batch);
  MicroBatch& at(int64_t micro_batch);
  TensorSet backward(int64_t micro_batch, int chunk, TensorSet d_out, HeadWeight head_weight);
  /// What goes out, and what came in, in the format of the other side.
  TensorSet message(const TensorSet& made);
  TensorSet stream(const TensorSet& received, MemoryTag tag);
  void finish(int64_t micro_batch, int chunk);

  const Model& model_;
  RankContext& context_;
  DType message_format_;
  BatchAt batch_at_;
  ChunkCall begin_chunk_, reduce_chunk_;
  PhaseSeconds& phases_;
  std::vector<int64_t> stream_tokens_;           // of each uploaded micro-batch
  std::map<int64_t, MicroBatch> open_;           // from first need to the end of the last backward
  std::map<int64_t, HeadToCome> heads_to_come_;  // by micro-batch
};

}  // namespace viaduct
