#include "model/model_stage.h"

#include "base/error.h"
#include "model/in_format.h"

namespace viaduct {
namespace {

#ifdef NDEBUG
constexpr bool kDebugBuild = false;
#else
constexpr bool kDebugBuild = true;
#endif

}  // namespace

ModelStage::ModelStage(const Model& model, RankContext& context, StageSettings settings,
                       BatchAt batch_at)
    : model_(model), context_(context), settings_(std::move(settings)), batch_at_(batch_at) {}

void ModelStage::begin_chunk(int chunk) {
  if (settings_.begin_chunk) settings_.begin_chunk(chunk);
}

void ModelStage::reduce_chunk(int chunk) {
  if (settings_.reduce_chunk) settings_.reduce_chunk(chunk);
}

void ModelStage::upload_until(int64_t micro_batch) {
  while (static_cast<int64_t>(stream_tokens_.size()) <= micro_batch) {
    const auto next = static_cast<int64_t>(stream_tokens_.size());
    const Batch batch = batch_at_(next);
    stream_tokens_.push_back(batch.stream_tokens);
    open_.emplace(next, MicroBatch{batch, model_.chunks().size()});
  }
}

ModelStage::MicroBatch& ModelStage::at(int64_t micro_batch) {
  upload_until(micro_batch);
  const auto found = open_.find(micro_batch);
  VIADUCT_CHECK(ShapeError, found != open_.end(), "pipeline: micro-batch {} is finished already",
                micro_batch);
  return found->second;
}

ModelStage::InChunk& ModelStage::at(MicroBatch& micro_batch, int chunk) {
  const auto found = micro_batch.chunks.find(chunk);
  if (found != micro_batch.chunks.end()) return found->second;
  InChunk fresh{SavedStore(settings_.has_backward, settings_.saved_policy),
                model_.segments(static_cast<size_t>(chunk))};
  if (kDebugBuild && context_.ops.device.kind() == DeviceKind::cpu) fresh.saved.check_writes();
  return micro_batch.chunks.emplace(chunk, std::move(fresh)).first->second;
}

void ModelStage::finish(int64_t micro_batch, int chunk, SegmentRange range) {
  MicroBatch& open = at(micro_batch);
  InChunk& part = at(open, chunk);
  const SegmentRange done = range.among(model_.segments(static_cast<size_t>(chunk)));
  part.unfinished -= done.end - done.begin;
  if (part.unfinished > 0) return;
  VIADUCT_CHECK(ShapeError, part.saved.entries() == 0, "backward: {} saved values were never read",
                part.saved.entries());
  open.chunks.erase(chunk);
  if (--open.unfinished == 0) open_.erase(micro_batch);
}

RecordScope ModelStage::phase(std::string_view name, int64_t micro_batch, int chunk) const {
  StepRecord* record = settings_.has_backward ? context_.ops.device.record() : nullptr;
  return {record, ScopeKind::phase, name, {}, micro_batch, chunk};
}

PhaseTimer ModelStage::timer(double PhaseSeconds::*phase) {
  PhaseSeconds& sums = settings_.phases == nullptr ? own_phases_ : *settings_.phases;
  return PhaseTimer(sums.*phase);
}

TensorSet ModelStage::sent(const TensorSet& made, bool leaves_chunk) {
  if (!leaves_chunk) return made;
  return in_format(context_.ops, made, settings_.message_format, MemoryTag::activations);
}

TensorSet ModelStage::received(const TensorSet& set, bool enters_chunk, MemoryTag tag) {
  if (!enters_chunk) return set;
  return in_format(context_.ops, set, context_.settings.precision.stream, tag);
}

TensorSet ModelStage::run_forward(const Batch& batch, size_t chunk, SegmentRange range,
                                  TensorSet in, SavedStore& saved) {
  const HeadSegment* head = model_.chunks()[chunk].head;
  const bool replaces_head =
      settings_.instead_of_head && head != nullptr && range.end == SegmentRange::kEnd;
  if (!replaces_head) {
    return model_.forward(context_, chunk, range, batch, std::move(in), saved, settings_.observer);
  }
  TensorSet stream = std::move(in);
  if (range.begin < kLastSegment.begin) {
    const SegmentRange before{range.begin, kLastSegment.begin};
    stream = model_.forward(context_, chunk, before, batch, std::move(stream), saved,
                            settings_.observer);
  }
  settings_.instead_of_head(*head, stream.get(kHidden));
  return {};
}

TensorSet ModelStage::forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) {
  MicroBatch& open = at(micro_batch);
  const PhaseTimer time = timer(&PhaseSeconds::forward);
  const RecordScope scope = phase("forward", micro_batch, chunk);
  const MemoryTag tag = settings_.has_backward ? MemoryTag::saved : MemoryTag::activations;
  in = received(in, range.begin == 0, tag);
  const TensorSet out = run_forward(open.batch, static_cast<size_t>(chunk), range, std::move(in),
                                    at(open, chunk).saved);
  if (!settings_.has_backward) finish(micro_batch, chunk, range);
  return sent(out, range.end == SegmentRange::kEnd);
}

TensorSet ModelStage::backward(int64_t micro_batch, int chunk, SegmentRange range,
                               TensorSet d_out) {
  const PhaseTimer time = timer(&PhaseSeconds::backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& open = at(micro_batch);
  d_out = received(d_out, range.end == SegmentRange::kEnd, MemoryTag::activations);
  const TensorSet d_in = model_.backward(context_, static_cast<size_t>(chunk), range, open.batch,
                                         std::move(d_out), at(open, chunk).saved);
  finish(micro_batch, chunk, range);
  return sent(d_in, range.begin == 0);
}

TensorSet ModelStage::backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                                     TensorSet d_out) {
  const PhaseTimer time = timer(&PhaseSeconds::backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& open = at(micro_batch);
  d_out = received(d_out, range.end == SegmentRange::kEnd, MemoryTag::activations);
  const TensorSet d_in = model_.backward_input(context_, static_cast<size_t>(chunk), range,
                                               open.batch, std::move(d_out), at(open, chunk).saved);
  return sent(d_in, range.begin == 0);
}

void ModelStage::backward_weight(int64_t micro_batch, int chunk, SegmentRange range) {
  const PhaseTimer time = timer(&PhaseSeconds::backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& open = at(micro_batch);
  model_.backward_weight(context_, static_cast<size_t>(chunk), range, open.batch,
                         at(open, chunk).saved);
  finish(micro_batch, chunk, range);
}

std::vector<EdgeTensor> ModelStage::edge(int64_t micro_batch) {
  // The gradient goes on when the micro-batch may be finished here.
  upload_until(micro_batch);
  return {{std::string(kHidden), settings_.message_format,
           Shape{stream_tokens_[static_cast<size_t>(micro_batch)], model_.config().hidden}}};
}

Tensor ModelStage::allocate(const EdgeTensor& tensor, Flow flow) {
  // What is received for a forward is the input of the chunk's first layer, which is kept for its
  // backward.
  const bool keeps = flow == Flow::activations && settings_.has_backward;
  return context_.ops.allocate(tensor.dtype, tensor.shape,
                               keeps ? MemoryTag::saved : MemoryTag::activations);
}

}  // namespace viaduct
