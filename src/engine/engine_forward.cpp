// What an engine runs forward: the part of a batch that its rank computes on, copied to the device;
// forwards without gradients, and the loss of an evaluation.

#include <algorithm>

#include "base/error.h"
#include "engine/cut_batch.h"
#include "engine/engine.h"
#include "engine/image_rows.h"
#include "nn/product.h"
#include "ops/elementwise.h"
#include "pipeline/forward_schedule.h"

namespace viaduct {

Communicator& Engine::document_group(int ranks) const {
  for (const auto& group : groups_.documents()) {
    if (group->size() == ranks) return *group;
  }
  fail<ShapeError>("batch: no group of {} ranks shares documents (hybrid context parallel)", ranks);
}

BatchPlace Engine::batch_place() const {
  BatchPlace place = viaduct::batch_place(groups_, run_.layers.sequence_parallel,
                                          tokens_together(run_.layers.precision.products));
  place.attention_chunk = model_->config().attention_chunk();
  place.images = image_form(model_->config().vision);
  // Ranks of a vision tower alone have no stream of text, which their number might not divide.
  if (std::ranges::all_of(model_->chunks(), [](const ModelChunk& chunk) {
        return chunk.holds.encoder.of_images && chunk.holds.ends_in_encoder();
      }))
    place.stream_parts = 1, place.stream_part = 0;
  place.has_tower = std::ranges::any_of(
      model_->chunks(), [](const ModelChunk& chunk) { return chunk.holds.encoder.of_images; });
  return place;
}

Batch Engine::upload_part(const HostBatch& rows) {
  return upload_over(rows, nullptr);
}

Batch Engine::upload_over(const HostBatch& rows, const Batch* over) {
  // The configuration refuses lengths that no cut divides, except for packed documents.
  BatchPlace place = batch_place();
  Communicator* shared = nullptr;
  if (rows.context_ranks > 0) {
    shared = &document_group(rows.context_ranks);
    place.cp = shared->size(), place.cp_rank = shared->rank(), place.cp_inner = 1;
  }
  Batch batch = upload(device_, cut_batch(rows, place, true), model_->config().vocabulary,
                       run_.positions, place, over);
  batch.context_ranks = shared;
  return batch;
}

void Engine::forward(const Batch& batch, StageSettings::HeadCall instead_of_head,
                     WatchLayers::Function watch) {
  StageSettings settings{.message_format = message_format(),
                         .has_backward = false,
                         .instead_of_head = std::move(instead_of_head),
                         .hooks = hooks()};
  const bool watches = watch != nullptr;
  WatchLayers layers(std::move(watch));
  if (watches) settings.hooks.push_back(&layers);
  run_forwards(1, settings, [&](int64_t) { return batch; });
}

void Engine::forward_all(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at,
                         StageSettings::HeadCall instead_of_head) {
  const RecordScope scope(device_.record(), ScopeKind::phase, "evaluate");
  run_forwards(count,
               {.message_format = message_format(),
                .has_backward = false,
                .instead_of_head = std::move(instead_of_head),
                .hooks = hooks()},
               [&](int64_t i) { return upload_part(batch_at(i)); });
}

void Engine::run_forwards(int64_t count, const StageSettings& settings,
                          ModelStage::BatchAt batch_at) {
  RankContext rank = context(false, false);
  ModelStage stage(*model_, rank, settings, batch_at);
  const ScheduleSettings schedule =
      forward_schedule(run_.parallelism.schedule, groups_.stages(), count);
  run_schedule(stage_schedule(schedule, groups_.stage()), stage, groups_,
               run_.parallelism.executor);
}

double Engine::evaluate(int64_t count, FunctionRef<HostBatch(int64_t)> batch_at) {
  const SequenceScope sequence(device_, MemorySequence::evaluate);
  const RecordScope scope(device_.record(), ScopeKind::phase, "evaluate");
  OpContext context{device_, ops_};
  fill(context, {loss_state_, 0});
  run_forwards(count, {.message_format = message_format(), .has_backward = false, .hooks = hooks()},
               [&](int64_t i) { return upload_part(batch_at(i)); });
  return total_loss("validation loss");
}

}  // namespace viaduct
