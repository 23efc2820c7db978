#include "model/model_stage.h"

#include <algorithm>

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
    : model_(model),
      context_(context),
      settings_(std::move(settings)),
      batch_at_(batch_at),
      hooks_{&record_} {
  if (settings_.second_memory != nullptr) hooks_.push_back(&offload_);
  hooks_.insert(hooks_.end(), settings_.hooks.begin(), settings_.hooks.end());
}

void ModelStage::begin_chunk(int chunk) {
  if (settings_.begin_chunk) settings_.begin_chunk(chunk);
}

void ModelStage::reduce_chunk(int chunk) {
  if (settings_.reduce_chunk) settings_.reduce_chunk(chunk);
}

void ModelStage::upload_until(int64_t micro_batch) {
  while (static_cast<int64_t>(edges_.size()) <= micro_batch) {
    const auto next = static_cast<int64_t>(edges_.size());
    if (settings_.leaves_out && settings_.leaves_out(next)) {
      edges_.emplace_back();
      continue;
    }
    const Batch batch = batch_at_(next);
    // Now, because the micro-batch may be finished here when the gradient leaves.
    std::vector<Edges>& edges = edges_.emplace_back();
    for (size_t chunk = 0; chunk < model_.chunks().size(); ++chunk) {
      edges.push_back(
          {model_.edge_into(chunk, context_, batch), model_.edge_from(chunk, context_, batch)});
    }
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

ModelStage::InChunk& ModelStage::at(MicroBatch& micro_batch, int chunk, int64_t number) {
  const auto found = micro_batch.chunks.find(chunk);
  if (found != micro_batch.chunks.end()) return found->second;
  const SavedPolicy* policy =
      settings_.policy_at ? settings_.policy_at(number, chunk) : settings_.saved_policy;
  InChunk fresh{SavedStore(settings_.has_backward, policy, settings_.second_memory),
                model_.segments(static_cast<size_t>(chunk))};
  if (kDebugBuild && context_.ops.device.kind() == DeviceKind::cpu) fresh.saved.check_writes();
  return micro_batch.chunks.emplace(chunk, std::move(fresh)).first->second;
}

void ModelStage::finish(int64_t micro_batch, int chunk, SegmentRange range) {
  MicroBatch& open = at(micro_batch);
  InChunk& part = at(open, chunk, micro_batch);
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

const Edge& ModelStage::edge_at(int64_t micro_batch, int chunk, bool at_end) const {
  const Edges& edges = edges_[static_cast<size_t>(micro_batch)][static_cast<size_t>(chunk)];
  return at_end ? edges.from : edges.into;
}

Edge ModelStage::in_message(const Edge& edge, Flow flow) const {
  Edge message;
  for (EdgeTensor tensor : edge) {
    if (flow == Flow::gradients && !tensor.needs_gradient) continue;
    if (tensor.message_format) tensor.dtype = settings_.message_format;
    message.push_back(std::move(tensor));
  }
  return message;
}

TensorSet ModelStage::sent(const TensorSet& made, int64_t micro_batch, int chunk, Flow flow) {
  const Edge message = in_message(edge_at(micro_batch, chunk, flow == Flow::activations), flow);
  for (const auto& [name, operand] : made.operands()) {
    VIADUCT_CHECK(ShapeError,
                  std::any_of(message.begin(), message.end(),
                              [&](const EdgeTensor& tensor) { return tensor.name == name; }),
                  "chunk {}: {} \"{}\" leaves the chunk, but no later segment names it", chunk,
                  flow == Flow::activations ? "tensor" : "gradient of", name);
  }
  return in_formats(context_.ops, made, message, MemoryTag::activations);
}

TensorSet ModelStage::received(const TensorSet& set, int64_t micro_batch, int chunk, Flow flow,
                               MemoryTag tag) {
  Edge declared = edge_at(micro_batch, chunk, flow == Flow::gradients);
  if (flow == Flow::gradients)
    std::erase_if(declared, [](const EdgeTensor& tensor) { return !tensor.needs_gradient; });
  return in_formats(context_.ops, set, declared, tag);
}

SegmentWalk ModelStage::walk(MicroBatch& micro_batch, int chunk, int64_t number) {
  return {model_.chunks()[static_cast<size_t>(chunk)], context_, micro_batch.batch,
          at(micro_batch, chunk, number).saved, hooks_};
}

TensorSet ModelStage::run_forward(const SegmentWalk& walk, int chunk, SegmentRange range,
                                  TensorSet in) {
  const HeadSegment* head = model_.chunks()[static_cast<size_t>(chunk)].head;
  const bool replaces_head =
      settings_.instead_of_head && head != nullptr && range.end == SegmentRange::kEnd;
  if (!replaces_head) return walk.forward(range, std::move(in));
  TensorSet stream = std::move(in);
  const int segments = model_.segments(static_cast<size_t>(chunk));
  if (range.among(segments).begin < segments - 1) {  // the head may be alone
    const SegmentRange before{range.begin, kLastSegment.begin};
    stream = walk.forward(before, std::move(stream));
  }
  settings_.instead_of_head(*head, stream.get(kHidden));
  return {};
}

TensorSet ModelStage::forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) {
  MicroBatch& open = at(micro_batch);
  const PhaseTimer time = timer(&PhaseSeconds::forward);
  const RecordScope scope = phase("forward", micro_batch, chunk);
  const MemoryTag tag = settings_.has_backward ? MemoryTag::saved : MemoryTag::activations;
  if (range.begin == 0) in = received(in, micro_batch, chunk, Flow::activations, tag);
  const TensorSet out = run_forward(walk(open, chunk, micro_batch), chunk, range, std::move(in));
  if (!settings_.has_backward) finish(micro_batch, chunk, range);
  if (range.end != SegmentRange::kEnd) return out;
  return sent(out, micro_batch, chunk, Flow::activations);
}

TensorSet ModelStage::backward(int64_t micro_batch, int chunk, SegmentRange range,
                               TensorSet d_out) {
  return backward_through(micro_batch, chunk, range, std::move(d_out), SegmentWork::backward);
}

TensorSet ModelStage::backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                                     TensorSet d_out) {
  return backward_through(micro_batch, chunk, range, std::move(d_out), SegmentWork::backward_input);
}

TensorSet ModelStage::backward_through(int64_t micro_batch, int chunk, SegmentRange range,
                                       TensorSet d_out, SegmentWork work) {
  const PhaseTimer time = timer(&PhaseSeconds::backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& open = at(micro_batch);
  if (range.end == SegmentRange::kEnd)
    d_out = received(d_out, micro_batch, chunk, Flow::gradients, MemoryTag::activations);
  const TensorSet d_in = walk(open, chunk, micro_batch).backward(range, std::move(d_out), work);
  if (work == SegmentWork::backward) finish(micro_batch, chunk, range);
  return range.begin == 0 ? sent(d_in, micro_batch, chunk, Flow::gradients) : d_in;
}

void ModelStage::backward_weight(int64_t micro_batch, int chunk, SegmentRange range) {
  const PhaseTimer time = timer(&PhaseSeconds::backward);
  const RecordScope scope = phase("backward", micro_batch, chunk);
  MicroBatch& open = at(micro_batch);
  walk(open, chunk, micro_batch).backward_weight(range);
  finish(micro_batch, chunk, range);
}

Edge ModelStage::edge(const Action& action) {
  upload_until(action.micro_batch);
  const Message& message = action.message;
  const bool at_end = (message.flow == Flow::activations) == message.outgoing;
  return in_message(edge_at(action.micro_batch, action.chunk, at_end), message.flow);
}

Tensor ModelStage::allocate(const EdgeTensor& tensor, Flow flow) {
  // What is received for a forward is the input of the chunk's first layer, which is kept for its
  // backward.
  const bool keeps = flow == Flow::activations && settings_.has_backward;
  return context_.ops.allocate(tensor.dtype, tensor.shape,
                               keeps ? MemoryTag::saved : MemoryTag::activations);
}

}  // namespace viaduct
