#pragma once
// A rank's part of the model as what a pipeline schedule runs: micro-batches of one step through
// the chunks of layers held here, each with a saved store of its own until its backward. Training,
// evaluation, the activations of `probe`, the search for a value that is not finite and generation
// all run it.

#include <functional>
#include <map>

#include "base/function_ref.h"
#include "model/model.h"
#include "model/phase_timer.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// What a stage does beside computing.
struct StageSettings {
  /// In place of the head (of the rank that holds it): called with the residual stream
  /// [stream tokens, H] that it would take.
  using HeadCall = std::function<void(const HeadSegment& head, const Tensor& stream)>;

  /// Of messages between stages, whatever the format of the residual stream.
  DType message_format = DType::f32;
  /// Forwards keep what backwards read; false: there will be none.
  bool has_backward = true;
  /// As StageProgram::begin_chunk; none: nobody is told.
  std::function<void(int chunk)> begin_chunk = {};
  /// As StageProgram::reduce_chunk.
  std::function<void(int chunk)> reduce_chunk = {};
  /// Of what forwards keep; null: everything is kept.
  const SavedPolicy* saved_policy = nullptr;
  HeadCall instead_of_head = {};
  Model::Observer observer = {};
  PhaseSeconds* phases = nullptr;  // where forwards and backwards add their time
};

class ModelStage final : public StageProgram {
 public:
  /// Micro-batch `i`, on the device; asked for once each, in ascending order, when it is first
  /// needed.
  using BatchAt = FunctionRef<Batch(int64_t i)>;

  /// All references outlive the stage, which lives for a step. Who keeps gradients counts
  /// contributions, so last_gradient tells nobody.
  ModelStage(const Model& model, RankContext& context, StageSettings settings, BatchAt batch_at);

  TensorSet forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) override;
  TensorSet backward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet d_out) override;
  TensorSet backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                           TensorSet d_out) override;
  void backward_weight(int64_t micro_batch, int chunk, SegmentRange range) override;
  void last_gradient(int) override {}
  void begin_chunk(int chunk) override;
  void reduce_chunk(int chunk) override;
  /// The residual stream [stream tokens, H].
  std::vector<EdgeTensor> edge(int64_t micro_batch) override;
  Tensor allocate(const EdgeTensor& tensor, Flow flow) override;

 private:
  /// A micro-batch in a chunk.
  struct InChunk {
    SavedStore saved;
    int unfinished = 0;  // segments that have work to come
  };
  struct MicroBatch {
    Batch batch;
    size_t unfinished = 0;  // chunks with work to come
    std::map<int, InChunk> chunks = {};
  };
  /// Says in the record what runs. Without backwards the caller does.
  RecordScope phase(std::string_view name, int64_t micro_batch, int chunk) const;
  PhaseTimer timer(double PhaseSeconds::*phase);
  /// Uploads the micro-batches up to this one that are not here yet.
  void upload_until(int64_t micro_batch);
  MicroBatch& at(int64_t micro_batch);
  InChunk& at(MicroBatch& micro_batch, int chunk);
  TensorSet run_forward(const Batch& batch, size_t chunk, SegmentRange range, TensorSet in,
                        SavedStore& saved);
  /// What leaves and enters a range: in the format of messages where the chunk ends, else as it is.
  TensorSet sent(const TensorSet& made, bool leaves_chunk);
  TensorSet received(const TensorSet& set, bool enters_chunk, MemoryTag tag);
  /// The work of these segments is done.
  void finish(int64_t micro_batch, int chunk, SegmentRange range);

  const Model& model_;
  RankContext& context_;
  StageSettings settings_;
  BatchAt batch_at_;
  PhaseSeconds own_phases_;             // where nobody asks
  std::vector<int64_t> stream_tokens_;  // of each uploaded micro-batch
  std::map<int64_t, MicroBatch> open_;  // from first need to the end of the last work
};

}  // namespace viaduct
