#pragma once
// The ops that have kernels for GPUs, for machines of the op tests that run them
// (support/op_testing.h): on the emulator (op_machine.cpp) and on a GPU (tests/gpu).

#include "ops/table.h"

namespace viaduct::test {

/// Whether the cpu has a kernel to compare bits with.
template <class Args>
bool has_cpu_kernel(const Args&) {
  return true;
}
inline bool has_cpu_kernel(const ScoreDropoutArgs& args) {
  return dtype_bytes(args.x.dtype()) > 2;
}

template <class Args>
bool never(const Args&) {
  return false;
}
/// For ops whose tensors all have the same kind.
template <class Args>
bool any_f64(const Args& args) {
  bool found = false;
  for_each_tensor(args, [&](const Tensor& tensor) {
    found = found || (tensor.defined() && tensor.dtype() == DType::f64);
  });
  return found;
}
template <class Args, auto kTensor>
bool is_f64(const Args& args) {
  return (args.*kTensor).dtype() == DType::f64;
}
inline bool is_f64_product(const GemmArgs& args) {
  return args.a.dtype() == DType::f64;
}
/// The cpu has no kernel for FP64 weights with FP32 masters either.
template <class List>
bool has_f64_runs(const List& args) {
  for (const auto& run : args.runs) {
    if (run.master.dtype() == DType::f64) return true;
    if (run.weight && run.weight.dtype() == DType::f64) return true;
  }
  return false;
}

/// Elements other than FP8 and NVFP4, and tiles for the cpu's products.
inline bool has_no_conversion(const ConvertOperandArgs& args) {
  const OperandForm& form = args.out.form();
  const bool kernels =
      form.element == DType::e4m3 || form.element == DType::e5m2 || form.element == DType::e2m1x2;
  return form.layout != kRowMajor || !kernels || args.matrix.dtype() == DType::f64;
}

/// Whether an op promises the cpu's bits.
inline constexpr bool kSameBits = true, kCloseBits = false;

/// Calls `Checked<entry, same bits, arguments, on the cpu>::put(table, kernels)` for every op that
/// has kernels.
template <template <auto, bool, class Args, bool (*)(const Args&)> class Checked,
          bool (*kNoProduct)(const GemmArgs&), bool (*kNoGrouped)(const GroupedGemmArgs&)>
void put_kernels(OpTable& table, const OpTable& k) {
  using T = OpTable;
  Checked<&T::add, kSameBits, AddArgs, any_f64>::put(table, k);
  Checked<&T::multiply, kSameBits, MultiplyArgs, any_f64>::put(table, k);
  Checked<&T::copy, kSameBits, CopyArgs, never>::put(table, k);
  Checked<&T::sum_rows, kSameBits, SumRowsArgs, any_f64>::put(table, k);
  Checked<&T::scale, kSameBits, ScaleArgs, any_f64>::put(table, k);
  Checked<&T::fill, kSameBits, FillArgs, never>::put(table, k);
  Checked<&T::dropout, kSameBits, DropoutArgs, any_f64>::put(table, k);
  Checked<&T::random_normal, kSameBits, RandomNormalArgs, never>::put(table, k);
  Checked<&T::bias_add, kSameBits, BiasAddArgs, any_f64>::put(table, k);
  Checked<&T::gemm, kCloseBits, GemmArgs, kNoProduct>::put(table, k);
  Checked<&T::grouped_gemm, kCloseBits, GroupedGemmArgs, kNoGrouped>::put(table, k);
  Checked<&T::column_sum, kCloseBits, ColumnSumArgs, any_f64>::put(table, k);
  Checked<&T::norm_forward, kCloseBits, NormForwardArgs, any_f64>::put(table, k);
  Checked<&T::norm_backward, kCloseBits, NormBackwardArgs, any_f64>::put(table, k);
  Checked<&T::activation_forward, kCloseBits, ActivationForwardArgs, any_f64>::put(table, k);
  Checked<&T::activation_backward, kCloseBits, ActivationBackwardArgs, any_f64>::put(table, k);
  Checked<&T::xielu_forward, kCloseBits, XieluForwardArgs, any_f64>::put(table, k);
  Checked<&T::xielu_backward, kCloseBits, XieluBackwardArgs, any_f64>::put(table, k);
  Checked<&T::rotary, kSameBits, RotaryArgs, any_f64>::put(table, k);
  Checked<&T::attention_forward, kCloseBits, AttentionForwardArgs, any_f64>::put(table, k);
  Checked<&T::attention_backward, kCloseBits, AttentionBackwardArgs, any_f64>::put(table, k);
  Checked<&T::attention_delta, kCloseBits, AttentionDeltaArgs, any_f64>::put(table, k);
  Checked<&T::attention_merge, kCloseBits, AttentionMergeArgs, any_f64>::put(table, k);
  Checked<&T::attention_sink, kCloseBits, AttentionSinkArgs, any_f64>::put(table, k);
  Checked<&T::attention_sink_backward, kCloseBits, AttentionSinkBackwardArgs, any_f64>::put(table,
                                                                                            k);
  Checked<&T::repeat_heads, kSameBits, RepeatHeadsArgs, any_f64>::put(table, k);
  Checked<&T::sum_heads, kSameBits, SumHeadsArgs, any_f64>::put(table, k);
  Checked<&T::score_product, kCloseBits, ScoreProductArgs, any_f64>::put(table, k);
  Checked<&T::score_softmax, kCloseBits, ScoreSoftmaxArgs, any_f64>::put(table, k);
  Checked<&T::score_softmax_backward, kCloseBits, ScoreSoftmaxBackwardArgs, any_f64>::put(table, k);
  Checked<&T::score_dropout, kSameBits, ScoreDropoutArgs, any_f64>::put(table, k);
  Checked<&T::score_bias, kSameBits, ScoreBiasArgs, any_f64>::put(table, k);
  Checked<&T::score_bias_backward, kCloseBits, ScoreBiasBackwardArgs, any_f64>::put(table, k);
  Checked<&T::soft_cap, kCloseBits, SoftCapArgs, any_f64>::put(table, k);
  Checked<&T::soft_cap_backward, kSameBits, SoftCapBackwardArgs, any_f64>::put(table, k);
  Checked<&T::row_largest, kSameBits, RowLargestArgs, any_f64>::put(table, k);
  Checked<&T::row_exponential, kCloseBits, RowExponentialArgs, any_f64>::put(table, k);
  Checked<&T::row_sum, kCloseBits, RowSumArgs, any_f64>::put(table, k);
  Checked<&T::row_divide, kSameBits, RowDivideArgs, any_f64>::put(table, k);
  Checked<&T::row_pick, kSameBits, RowPickArgs, any_f64>::put(table, k);
  Checked<&T::softmax_loss_backward, kSameBits, SoftmaxLossBackwardArgs,
          is_f64<SoftmaxLossBackwardArgs, &SoftmaxLossBackwardArgs::out>>::put(table, k);
  Checked<&T::embedding_forward, kSameBits, EmbeddingForwardArgs, any_f64>::put(table, k);
  Checked<&T::embedding_backward, kSameBits, EmbeddingBackwardArgs, any_f64>::put(table, k);
  Checked<&T::cross_entropy_forward, kCloseBits, CrossEntropyForwardArgs,
          is_f64<CrossEntropyForwardArgs, &CrossEntropyForwardArgs::logits>>::put(table, k);
  Checked<&T::cross_entropy_backward, kCloseBits, CrossEntropyBackwardArgs,
          is_f64<CrossEntropyBackwardArgs, &CrossEntropyBackwardArgs::out>>::put(table, k);
  Checked<&T::lse_share, kCloseBits, LseShareArgs, never>::put(table, k);
  Checked<&T::lse_join, kCloseBits, LseJoinArgs, never>::put(table, k);
  Checked<&T::route, kCloseBits, RouteArgs, any_f64>::put(table, k);
  Checked<&T::route_backward, kCloseBits, RouteBackwardArgs,
          is_f64<RouteBackwardArgs, &RouteBackwardArgs::logits>>::put(table, k);
  Checked<&T::router_loss, kCloseBits, RouterLossArgs,
          is_f64<RouterLossArgs, &RouterLossArgs::logits>>::put(table, k);
  Checked<&T::count_choices, kSameBits, CountChoicesArgs, never>::put(table, k);
  Checked<&T::load_error, kSameBits, LoadErrorArgs, never>::put(table, k);
  Checked<&T::move_load_bias, kSameBits, MoveLoadBiasArgs, never>::put(table, k);
  Checked<&T::count_margins, kSameBits, CountMarginsArgs, any_f64>::put(table, k);
  Checked<&T::quantile_bias, kSameBits, QuantileBiasArgs, any_f64>::put(table, k);
  Checked<&T::limit_experts, kSameBits, LimitExpertsArgs, any_f64>::put(table, k);
  Checked<&T::sinkhorn_bias, kCloseBits, SinkhornArgs, any_f64>::put(table, k);
  Checked<&T::jitter, kSameBits, JitterArgs, any_f64>::put(table, k);
  Checked<&T::random_rows, kSameBits, RandomRowsArgs, any_f64>::put(table, k);
  Checked<&T::sort_by_expert, kSameBits, SortByExpertArgs, never>::put(table, k);
  Checked<&T::arrival_order, kSameBits, ArrivalOrderArgs, never>::put(table, k);
  Checked<&T::combine_rows, kSameBits, CombineRowsArgs, any_f64>::put(table, k);
  Checked<&T::combine_rows_backward, kCloseBits, CombineRowsBackwardArgs, any_f64>::put(table, k);
  Checked<&T::row_dots, kCloseBits, RowDotsArgs, any_f64>::put(table, k);
  Checked<&T::combine_weights_backward, kSameBits, CombineWeightsBackwardArgs, any_f64>::put(table,
                                                                                             k);
  Checked<&T::expert_bias, kSameBits, ExpertBiasArgs, any_f64>::put(table, k);
  Checked<&T::expert_bias_backward, kSameBits, ExpertBiasBackwardArgs, any_f64>::put(table, k);
  Checked<&T::convert_operand, kSameBits, ConvertOperandArgs, has_no_conversion>::put(table, k);
  // The signs of NaN differ, which have no meaning.
  Checked<&T::expand_operand, kCloseBits, ExpandOperandArgs, never>::put(table, k);
  Checked<&T::largest_magnitude, kSameBits, LargestMagnitudeArgs, never>::put(table, k);
  Checked<&T::quantization_error, kSameBits, QuantizationErrorArgs, never>::put(table, k);
  Checked<&T::square_magnitudes, kSameBits, SquareMagnitudesArgs, never>::put(table, k);
  Checked<&T::square_scales, kSameBits, SquareScalesArgs, never>::put(table, k);
  Checked<&T::square_codes, kSameBits, SquareCodesArgs, never>::put(table, k);
  Checked<&T::note_amax, kSameBits, NoteAmaxArgs, never>::put(table, k);
  Checked<&T::choose_amax, kSameBits, ChooseAmaxArgs, never>::put(table, k);
  Checked<&T::reproducible_sum, kSameBits, ReproducibleSumArgs, never>::put(table, k);
  Checked<&T::reproducible_sums, kSameBits, ReproducibleSumsArgs, never>::put(table, k);
  Checked<&T::widen_sum, kSameBits, WidenSumArgs, never>::put(table, k);
  Checked<&T::narrow_sum, kSameBits, NarrowSumArgs, never>::put(table, k);
  Checked<&T::sum_value, kSameBits, SumValueArgs, never>::put(table, k);
  Checked<&T::gradient_norm, kSameBits, GradientNormArgs, never>::put(table, k);
  Checked<&T::adamw, kSameBits, AdamWListArgs, has_f64_runs>::put(table, k);
  Checked<&T::momentum, kSameBits, MomentumListArgs, has_f64_runs>::put(table, k);
  Checked<&T::muon_momentum, kSameBits, MuonMomentumArgs, never>::put(table, k);
  Checked<&T::normalize, kSameBits, NormalizeArgs, never>::put(table, k);
  Checked<&T::muon_update, kSameBits, MuonUpdateArgs, never>::put(table, k);
  Checked<&T::adafactor_limits, kSameBits, AdafactorLimitsArgs, never>::put(table, k);
  Checked<&T::adafactor_sums, kSameBits, AdafactorSumsArgs, never>::put(table, k);
  Checked<&T::adafactor_moments, kCloseBits, AdafactorMomentsArgs, never>::put(table, k);
  Checked<&T::adafactor_direction, kSameBits, AdafactorDirectionArgs, never>::put(table, k);
  Checked<&T::adafactor_update, kSameBits, AdafactorUpdateArgs, never>::put(table, k);
  Checked<&T::expand_state, kSameBits, ExpandStateArgs, never>::put(table, k);
  Checked<&T::store_state, kSameBits, StoreStateArgs, never>::put(table, k);
}

}  // namespace viaduct::test
