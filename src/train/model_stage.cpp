#include "train/model_stage.h"

#include "base/error.h"
#include "train/in_format.h"

namespace viaduct {

ModelStage::ModelStage(const Model& model, RankContext& context, DType message_format,
                       BatchAt batch_at, ChunkCall begin_chunk, ChunkCall reduce_chunk,
                       PhaseSeconds& phases)
    : model_(model),
      context_(context),
      message_format_(message_format),
      batch_at_(batch_at),
      begin_chunk_(begin_chunk),
      reduce_chunk_(reduce_chunk),
      phases_(phases) {}

void ModelStage::upload_until(int64_t micro_batch) {
  while (static_cast<int64_t>(stream_tokens_.size()) <= micro_batch) {
    const auto next = static_cast<int64_t>(stream_tokens_.size());
    const Batch batch = batch_at_(next);
    stream_tokens_.push_back(batch.stream_tokens);
    open_[next] = {batch, model_.chunks().size()};
  }
}

ModelStage::MicroBatch& ModelStage::at(int64_t micro_batch) {
  upload_until(micro_batch);
  const auto found = open_.find(micro_batch);
  VIADUCT_CHECK(ShapeError, found != open_.end(), "pipeline: micro-batch {} is finished already",
                micro_batch);
  return found->second;
}

void ModelStage::finish(int64_t micro_batch, int chunk) {
  MicroBatch& at_hand = at(micro_batch);
  at_hand.saved.erase(chunk);
  if (--at_hand.unfinished == 0) open_.erase(micro_batch);
}

RecordScope ModelStage::phase(std::string_view name, int64_t micro_batch, int chunk) const {
  return {context_.ops.device.record(), ScopeKind::phase, name, {}, micro_batch, chunk};
}

TensorSet ModelStage::message(const TensorSet& made) {
  return in_format(context_.ops, made, message_format_, MemoryTag::activations);
}

TensorSet ModelStage::stream(const TensorSet& received, MemoryTag tag) {
  return in_format(context_.ops, received, context_.precision.stream, tag);
}

TensorSet ModelStage::forward(int64_t micro_batch, int chunk, TensorSet in) {
  MicroBatch& at_hand = at(micro_batch);
  const PhaseTimer timer(phases_.forward);
  const RecordScope scope = phase("forward", micro_batch, chunk);
  in = stream(in, MemoryTag::saved);
  return message(model_.forward(context_, static_cast<size_t>(chunk), at_hand.batch, in,
                                at_hand.saved[chunk]));
}

TensorSet ModelStage::backward(int64_t micro_batch, int chunk, TensorSet d_out) {
  return backward(micro_batch, chunk, std::move(d_out), HeadWeight::now);
}

TensorSet ModelStage::backward_but_head(int64_t micro_batch, int chunk, TensorSet d_out) {
  return backward(micro_batch, chunk, std::move(d_out), HeadWeight::later);
}

TensorSet ModelStage::backward(int64_t micro_batch, int chunk, TensorSet d_out,
                               HeadWeight head_weight) {
  const PhaseTimer timer(phases_.backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& at_hand = at(micro_batch);
  d_out = stream(d_out, MemoryTag::activations);
  SavedStore& saved = at_hand.saved[chunk];
  const TensorSet d_in = model_.backward(context_, static_cast<size_t>(chunk), at_hand.batch,
                                         std::move(d_out), saved, head_weight);
  if (head_weight == HeadWeight::later)
    heads_to_come_[micro_batch] = {at_hand.batch, std::move(saved)};
  finish(micro_batch, chunk);
  return message(d_in);
}

void ModelStage::head_weight(int64_t micro_batch, int chunk) {
  const PhaseTimer timer(phases_.backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  auto head = heads_to_come_.extract(micro_batch);
  VIADUCT_CHECK(ShapeError, !head.empty(),
                "pipeline: the head's weight gradient of micro-batch {} does not wait",
                micro_batch);
  model_.backward_head_weight(context_, head.mapped().batch, head.mapped().saved);
}

TensorSet ModelStage::backward_input(int64_t micro_batch, int chunk, TensorSet d_out) {
  const PhaseTimer timer(phases_.backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& at_hand = at(micro_batch);
  d_out = stream(d_out, MemoryTag::activations);
  return message(model_.backward_input(context_, static_cast<size_t>(chunk), at_hand.batch,
                                       std::move(d_out), at_hand.saved[chunk]));
}

void ModelStage::backward_weight(int64_t micro_batch, int chunk) {
  const PhaseTimer timer(phases_.backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& at_hand = at(micro_batch);
  model_.backward_weight(context_, static_cast<size_t>(chunk), at_hand.batch, at_hand.saved[chunk]);
  finish(micro_batch, chunk);
}

std::vector<EdgeTensor> ModelStage::edge(int64_t micro_batch) {
  // The gradient goes on when the micro-batch may be finished here.
  upload_until(micro_batch);
  return {{std::string(kHidden), message_format_,
           Shape{stream_tokens_[static_cast<size_t>(micro_batch)], model_.config().hidden}}};
}

Tensor ModelStage::allocate(const EdgeTensor& tensor, Flow flow) {
  // What is received is the input of the chunk's first layer, which is kept for its backward.
  const MemoryTag tag = flow == Flow::activations ? MemoryTag::saved : MemoryTag::activations;
  return context_.ops.allocate(tensor.dtype, tensor.shape, tag);
}

}  // namespace viaduct
