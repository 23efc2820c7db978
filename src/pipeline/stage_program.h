#pragma once
// The interface through which the executor runs a stage: a part of the model, or a small program in
// a test.

#include "nn/segment.h"
#include "pipeline/action.h"

namespace viaduct {

class StageProgram {
 public:
  virtual ~StageProgram() = default;

  /// Segments `range` of the chunk. `in` is empty at the model's beginning, the result at its end.
  virtual TensorSet forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) = 0;
  /// d_in of d_out, all gradients. `d_out` is empty at the model's end, the result at its
  /// beginning.
  virtual TensorSet backward(int64_t micro_batch, int chunk, SegmentRange range,
                             TensorSet d_out) = 0;
  /// The same in two halves.
  virtual TensorSet backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                                   TensorSet d_out) = 0;
  virtual void backward_weight(int64_t micro_batch, int chunk, SegmentRange range) = 0;

  /// Called right after the backward at which, counted on all stages alike, the chunk's weight
  /// gradients are complete (Action::reduces): a time to start their reduction everywhere. Not
  /// called for chunks that complete too late in the step.
  virtual void reduce_chunk(int chunk) { static_cast<void>(chunk); }
  /// Called once a step for each chunk, at the same virtual micro-batch on all stages, no later
  /// than right before the chunk's first forward (Action::begins).
  virtual void begin_chunk(int chunk) = 0;

  /// The tensors of a message that a post_send or post_receive names, in the message's formats.
  /// Both ends return the same list.
  virtual Edge edge(const Action& message) = 0;
  /// A buffer for a received tensor.
  virtual Tensor allocate(const EdgeTensor& tensor, Flow flow) = 0;
};

}  // namespace viaduct
