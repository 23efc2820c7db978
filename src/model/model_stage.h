#pragma once
// A rank's part of the model as what a pipeline schedule runs: micro-batches of one step through
// the chunks of layers held here, each with a saved store of its own until its backward. Training,
// evaluation, the activations of `probe`, the search for a value that is not finite and generation
// all run it.

#include <functional>
#include <map>

#include "base/function_ref.h"
#include "model/model.h"
#include "model/offload_segments.h"
#include "model/phase_timer.h"
#include "model/segment_walk.h"
#include "model/walk_watchers.h"
#include "pipeline/stage_program.h"

namespace viaduct {

/// What a stage does in addition to computing.
struct StageSettings {
  /// In place of the head (of the rank that holds it): called with the residual stream
  /// [stream tokens, H] that it would take.
  using HeadCall = std::function<void(const HeadSegment& head, const Tensor& stream)>;

  /// Of what messages between stages carry in their own format (EdgeTensor::message_format).
  DType message_format = DType::f32;
  /// Forwards keep what backwards read; false: there will be none.
  bool has_backward = true;
  /// As StageProgram::begin_chunk; may be empty.
  std::function<void(int chunk)> begin_chunk = {};
  /// As StageProgram::reduce_chunk.
  std::function<void(int chunk)> reduce_chunk = {};
  /// Of what forwards keep; null: everything is kept.
  const SavedPolicy* saved_policy = nullptr;
  /// Of what one micro-batch keeps in a chunk, where it differs between them; none: as above.
  std::function<const SavedPolicy*(int64_t micro_batch, int chunk)> policy_at = {};
  /// Where they offload to; outlives the stage.
  SecondMemory* second_memory = nullptr;
  /// Micro-batches that the schedule leaves out (pipeline/action_follower.h); none: it runs all.
  std::function<bool(int64_t micro_batch)> leaves_out = {};
  HeadCall instead_of_head = {};
  /// Further hooks, called for each segment; they must outlive the stage.
  std::vector<SegmentHooks*> hooks = {};
  PhaseSeconds* phases = nullptr;  // where forwards and backwards add their time
};

class ModelStage final : public StageProgram {
 public:
  /// Micro-batch `i`, on the device; called once for each, in ascending order, when it is first
  /// needed, except for those that are left out.
  using BatchAt = FunctionRef<Batch(int64_t i)>;

  /// All references outlive the stage, which lives for a step.
  ModelStage(const Model& model, RankContext& context, StageSettings settings, BatchAt batch_at);

  TensorSet forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) override;
  TensorSet backward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet d_out) override;
  TensorSet backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                           TensorSet d_out) override;
  void backward_weight(int64_t micro_batch, int chunk, SegmentRange range) override;
  void begin_chunk(int chunk) override;
  void reduce_chunk(int chunk) override;
  /// The tensors that the segments beyond the end of the chunk read; for gradients, those that need
  /// one.
  Edge edge(const Action& message) override;
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
  /// Marks in the record what runs. Without backwards the caller does so.
  RecordScope phase(std::string_view name, int64_t micro_batch, int chunk) const;
  PhaseTimer timer(double PhaseSeconds::*phase);
  /// Uploads the micro-batches up to this one that are not on the device yet.
  void upload_until(int64_t micro_batch);
  MicroBatch& at(int64_t micro_batch);
  InChunk& at(MicroBatch& micro_batch, int chunk, int64_t number);
  SegmentWalk walk(MicroBatch& micro_batch, int chunk, int64_t number);
  TensorSet run_forward(const SegmentWalk& walk, int chunk, SegmentRange range, TensorSet in);
  /// Both halves of the backward, or only the first.
  TensorSet backward_through(int64_t micro_batch, int chunk, SegmentRange range, TensorSet d_out,
                             SegmentWork work);
  /// What crosses the two ends of a chunk for a micro-batch, as segments declare it.
  struct Edges {
    Edge into, from;
  };
  const Edge& edge_at(int64_t micro_batch, int chunk, bool at_end) const;
  /// The same as a message has it.
  Edge in_message(const Edge& edge, Flow flow) const;
  /// What leaves a chunk, in the formats of messages. ShapeError for a tensor that nothing reads.
  TensorSet sent(const TensorSet& made, int64_t micro_batch, int chunk, Flow flow);
  /// Received tensors, in their declared formats.
  TensorSet received(const TensorSet& set, int64_t micro_batch, int chunk, Flow flow,
                     MemoryTag tag);
  /// Notes that the work of these segments is done.
  void finish(int64_t micro_batch, int chunk, SegmentRange range);

  const Model& model_;
  RankContext& context_;
  StageSettings settings_;
  BatchAt batch_at_;
  PhaseSeconds own_phases_;  // if the caller wants none
  RecordSegments record_;
  OffloadSegments offload_;
  std::vector<SegmentHooks*> hooks_;  // of this class, then of the settings
  /// For each micro-batch so far, by chunk; nothing for those that are left out.
  std::vector<std::vector<Edges>> edges_;
  std::map<int64_t, MicroBatch> open_;  // from first need to the end of the last work
};

}  // namespace viaduct
