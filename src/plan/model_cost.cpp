#include "plan/model_cost.h"

#include <algorithm>

#include "model/flops.h"
#include "plan/op_time.h"
#include "precision/precision_config.h"

namespace viaduct {
namespace {

/// Of a batch on one GPU at its highest rates.
struct LeastSeconds {
  double step = 0;  // products and attention
  double head = 0;  // of that
};

/// Of all places of rows; attention stays inside documents.
FlopCount step_flops(const FlopSizes& sizes, const SpaceLimits& space, const RunSetup& run) {
  if (!run.conversations) return training_flops(sizes, space.global_batch, space.length);
  const std::vector<int64_t> documents(run.conversations->row_documents.begin(),
                                       run.conversations->row_documents.end());
  FlopCount flops = training_flops(sizes, documents);
  const auto rows = static_cast<double>(space.global_batch);
  flops.token_part *= rows;
  flops.attention_part *= rows;
  flops.attention_part_full *= rows;
  return flops;
}

LeastSeconds least_seconds(const PlanRequest& request, const SpaceLimits& space,
                           const RunSetup& run) {
  const FlopSizes sizes = flop_sizes(run.model, run.config.peft.resolved);
  const bool narrow = precision_recipe(run.config.mixed_precision).products.any();
  const FlopCount flops = step_flops(sizes, space, run);
  // A frozen head has no gradient.
  const double head_products = sizes.frozen && sizes.trained_parameters == 0 ? 4 : 6;
  const double head = head_products * static_cast<double>(sizes.hidden * sizes.vocabulary) *
                      static_cast<double>(space.global_batch * space.length);
  OpTimeSettings settings = request.prediction.ops;
  if (run.model.library_attention)
    settings.attention_share = std::max(settings.attention_share, settings.library_attention_share);
  const OpTime time(request.cluster.gpu, settings);
  const double share = request.prediction.spec_sheet ? 1 : request.cluster.gpu.step_share;
  return {(time.least_seconds(flops.token_part, OpKind::product, narrow) +
           time.least_seconds(flops.attention_part, OpKind::attention, narrow)) /
              share,
          time.least_seconds(head, OpKind::product, narrow) / share};
}

}  // namespace

ModelCost model_cost(const PlanRequest& request, const SearchLimits& limits, LayerCosts& layers,
                     const Deadline& deadline) {
  const SpaceLimits& space = limits.space;
  ModelCost model = layers.model();
  const LeastSeconds least = least_seconds(request, space, layers.whole());
  const int64_t rows = space.micro_batch.value_or(std::min(kMostMicroBatch, space.global_batch));
  const double batches = static_cast<double>(space.global_batch) / static_cast<double>(rows);
  // One rank has all experts.
  Layout one{.micro_batch = rows};
  if (layers.whole().model.moe.any()) one.ep = one.etp = 1;
  const LayerCost layer = layers.of(one, deadline);
  // On one rank the head may recompute its logits, on several it may not.
  const double ends = std::max(least.head, batches * layers.end_seconds_once(one, deadline));
  model.end_seconds = ends;
  model.step_seconds = std::max(
      least.step, batches * static_cast<double>(model.counted_layers) * layer.layer_seconds + ends);
  for (const Recompute recompute : recomputes_of(space)) {
    one.recompute = recompute;
    const LayerCost& again = layers.of(one, deadline);
    model.layer_again_seconds[static_cast<size_t>(recompute)] = batches * again.again_seconds;
  }
  model.account_for_embedding = space.account_for_embedding;
  model.account_for_loss = space.account_for_loss;
  model.even_stages = !space.given_stages;
  const ModelConfig& whole = layers.whole().model;
  model.has_encoder = whole.encoder.any() || whole.vision.any();
  model.has_bubble = limits.has_bubble;
  model.all_in_flight = limits.all_in_flight;
  model.rows = static_cast<double>(space.global_batch);
  return model;
}

}  // namespace viaduct
