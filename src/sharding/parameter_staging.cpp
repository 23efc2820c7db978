// Weights without their own memory: their 16-bit values are in the memory of their gradients from
// the first use after an update until their forms for products are made. (Megatron's
// `reuse_grad_buf_for_mxfp8_param_ag`.) So the gradients of a step stay until the next step begins.

#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::stage_weights() {
  if (!staging_ || staged_generation_ == generation_) return;
  staged_generation_ = generation_;
  for (const ShardRun& run : runs_) {
    if (passes_gradients(*run.parameter)) round_master(*staging_, run, recipe_.master, run.weight);
  }
  gather_shards(chunks());
  if (!settings_.overlap_param_gather) gather_->finish();
}

void ParameterStore::end_staging(size_t chunk) {
  if (!staging_ || formed(chunk)) return;
  // Gathers of other parameters' buckets continue: they have their own memory.
  for (const BucketPlace& place : buckets_) {
    if (place.chunk != chunk || !passes_gradients(*place.parameters.front())) continue;
    gather_->require(gather_place(static_cast<size_t>(&place - buckets_.data())));
    for (const Parameter* parameter : place.parameters)
      forms_->make(*parameter, weight(*parameter), generation_);
  }
  for (const ParameterBuffer& buffer : buffers_) {
    if (buffer.chunk() != chunk || !buffer.formats().weights_in_gradients) continue;
    // Padding takes part in reductions.
    for (const Tensor& padding : buffer.gradient_padding()) fill(*staging_, {padding, 0});
  }
  formed_generations_[chunk] = generation_;
}

}  // namespace viaduct
