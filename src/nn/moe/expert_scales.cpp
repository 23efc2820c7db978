#include "nn/moe/expert_scales.h"

#include "base/hash.h"
#include "nn/product.h"
#include "ops/elementwise.h"
#include "ops/largest_magnitude.h"
#include "ops/quantized_forms.h"

namespace viaduct {
namespace {

/// Maxima over the ranks that hold parts of these operands. Experts of one rank are not those of
/// another: all of the layer's have a place.
void reduce_over_ranks(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                       const Parameter& weight, const Tensor& own) {
  const int64_t forms = own.dim(0), here = weight.experts.here;
  const int64_t sharers = context.groups.tp().size() * context.context_ranks().size();
  // Ranks that exchange tokens share a micro-batch's with others.
  const bool beyond = place.ranks % sharers != 0;
  if (place.copies == 1 && !beyond) return;
  const Tensor all = context.ops.allocate(DType::f32, {forms, moe.experts}, MemoryTag::activations);
  fill(context.ops, {all, 0});
  const auto mine = [&](int64_t form) {
    return all.select(form).slice(0, weight.experts.first, here);
  };
  for (int64_t form = 0; form < forms; ++form) copy(context.ops, {own.select(form), mine(form)});
  if (place.copies > 1) place.group(context).all_reduce(all, ReduceOp::max).wait();
  if (beyond) {
    for (Communicator* ranks : {&context.groups.tp(), &context.context_ranks()})
      ranks->all_reduce(all, ReduceOp::max).wait();
  }
  for (int64_t form = 0; form < forms; ++form) copy(context.ops, {mine(form), own.select(form)});
}

}  // namespace

Quantization quantization_of(const RankContext& context, const Parameter& weight) {
  return weight.quantized ? context.settings.precision.products : Quantization();
}

Tensor expert_amax(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                   const Parameter& weight, LayerOperand operand, const Tensor& matrix,
                   const Tensor& offsets, const SavedStore& saved) {
  const Quantization how = quantization_of(context, weight);
  if (!how.scales_matrices()) return {};
  const int64_t here = weight.experts.here;
  if (context.delayed != nullptr)
    return delayed_amax(context, weight, operand, matrix, saved, offsets).view({1, here});
  const bool rotates = how.scaling == Scaling::nvfp4 && how.weight_gradient;
  const Tensor amax = context.ops.allocate(DType::f32, {rotates ? 2 : 1, here}, saved.tag());
  largest_magnitude(context.ops, {matrix, amax.select(0), false, offsets});
  if (rotates) largest_magnitude(context.ops, {matrix, amax.select(1), true, offsets});
  if (context.settings.precision.amax.source != AmaxSource::own)
    reduce_over_ranks(context, moe, place, weight, amax);
  return amax;
}

Tensor amax_for(const Quantization& quantization, GemmForm form, const Tensor& amax) {
  const OperandForm of_operand = quantized_forms(form, quantization).b;
  if (!has_matrix_scale(of_operand)) return {};
  return amax.select(of_operand.rotated ? 1 : 0);
}

Tensor first_token(RankContext& context, const ExpertPlace& place, const Batch& batch) {
  if (context.settings.precision.products.scaling != Scaling::nvfp4) return {};
  const Tensor first = context.ops.allocate(DType::i64, {1}, MemoryTag::saved);
  copy(context.ops, {batch.stream_rows(batch.token_index).slice(0, 0, 1), first});
  if (place.ranks > 1) place.group(context).broadcast(first, 0).wait();
  return first;
}

StochasticRounding expert_rounding(const RankContext& context, const Parameter& weight,
                                   const Tensor& first_token) {
  if (quantization_of(context, weight).scaling != Scaling::nvfp4) return {};
  StochasticRounding rounding{{context.settings.seed, hash64(weight.path)}, first_token, {}};
  for (const Part& part : weight.parts) {
    const auto first = static_cast<uint64_t>(part.box.begin[part.transposed ? 1 : 0]);
    rounding.features.push_back({part.storage_row, (hash64(part.name) << 32) + first});
  }
  return rounding;
}

}  // namespace viaduct
