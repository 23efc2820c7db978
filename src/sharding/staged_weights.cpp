#include "sharding/staged_weights.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"

namespace viaduct {

StagedWeights::StagedWeights(const ParameterEntries& entries, const StoreSettings& settings,
                             OffloadedBlocks* blocks, const std::vector<ShardRun>& runs,
                             DType master)
    : WholeWeights(entries, settings, blocks),
      runs_(runs),
      master_(master),
      formed_generations_(entries.chunks(), -1) {}

void StagedWeights::derive(const OpContext& context, WeightForms& forms) {
  WholeWeights::derive(context, forms);
  context_.emplace(context);
}

Tensor StagedWeights::weight(const Parameter& parameter) const {
  VIADUCT_CHECK(
      ShapeError,
      !entries_.passes_gradients(parameter) ||
          (staged_generation_ == generation() && !formed(entries_.bucket_of(parameter).chunk)),
      "parameter store: the 16-bit weight {} of generation {} is not in the memory of "
      "gradients",
      parameter.path, generation());
  return WholeWeights::weight(parameter);
}

void StagedWeights::require(const Parameter& parameter) {
  if (!gather_.stale()) {
    stage();
    WholeWeights::require(parameter);
  }
  if (entries_.passes_gradients(parameter) && !formed(entries_.bucket_of(parameter).chunk))
    forms_->make(parameter, weight(parameter), generation());
}

void StagedWeights::finish() {
  if (!gather_.stale()) stage();
  WholeWeights::finish();
  for (size_t chunk = 0; chunk < entries_.chunks(); ++chunk) end_staging(chunk);
}

void StagedWeights::begin_step() {
  if (!gather_.stale()) stage();
}

void StagedWeights::begin_chunk(size_t chunk) {
  if (!settings_.align_param_gather || gather_.stale()) return;
  stage();
  WholeWeights::begin_chunk(chunk);
}

void StagedWeights::begin_program() {
  finish();
  for (const Parameter* parameter : entries_.parameters())
    if (!entries_.passes_gradients(*parameter))
      forms_->make(*parameter, weight(*parameter), generation());
}

void StagedWeights::stage() {
  if (!context_ || staged_generation_ == generation()) return;
  staged_generation_ = generation();
  for (const ShardRun& run : runs_) {
    if (entries_.passes_gradients(*run.parameter))
      round_master(*context_, run, master_, run.weight);
  }
  instances_.gather(entries_.chunks());
  if (!settings_.overlap_param_gather) gather_.finish();
}

void StagedWeights::end_staging(size_t chunk) {
  if (!context_ || formed(chunk)) return;
  // Gathers of other parameters' buckets continue: they have their own memory.
  const auto& buckets = entries_.buckets();
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].chunk != chunk || !entries_.passes_gradients(*buckets[i].parameters.front()))
      continue;
    gather_.require(gather_place(i));
    for (const Parameter* parameter : buckets[i].parameters)
      forms_->make(*parameter, weight(*parameter), generation());
  }
  for (const ParameterBuffer& buffer : entries_.buffers()) {
    if (buffer.chunk() != chunk || !buffer.formats().weights_in_gradients) continue;
    // Padding takes part in reductions.
    for (const Tensor& padding : buffer.gradient_padding()) fill(*context_, {padding, 0});
  }
  formed_generations_[chunk] = generation();
}

}  // namespace viaduct
