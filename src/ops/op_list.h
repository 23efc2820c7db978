#pragma once
// The list of ops, and of the families in which the cpu has them. Everything that is the same for
// each op comes from here: the entry of the table (ops/table.h), the declarations of its reference
// and of its cost, and the checks of a GPU's kernels against the cpu's.

#include "ops/activation.h"
#include "ops/adafactor.h"
#include "ops/amax_history.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"
#include "ops/bias.h"
#include "ops/convert_operand.h"
#include "ops/cross_entropy.h"
#include "ops/dequantize_blocks.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expert_bias.h"
#include "ops/expert_capacity.h"
#include "ops/expert_rows.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/heads.h"
#include "ops/largest_magnitude.h"
#include "ops/load_bias.h"
#include "ops/load_quantile.h"
#include "ops/momentum.h"
#include "ops/muon.h"
#include "ops/nf4.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/optimizer_state.h"
#include "ops/quantization_error.h"
#include "ops/random_rows.h"
#include "ops/relative_bias.h"
#include "ops/rotary.h"
#include "ops/routing.h"
#include "ops/score_matrix.h"
#include "ops/sinkhorn.h"
#include "ops/softmax.h"
#include "ops/square_codes.h"
#include "ops/xielu.h"

namespace viaduct {

/// How the results of an op's kernel on a GPU compare with the cpu's: `same` bits (of ops with
/// several steps tests/cuda_host/checked_ops.h says which are not); `close`, within the tolerance
/// of the op's tests (of expand_operand only signs of NaN differ); `none`: there is no kernel, and
/// a run that needs it is refused.
enum class GpuResults { same, close, none };

}  // namespace viaduct

/// X(name, Args, GpuResults)
#define VIADUCT_OPS(X)                                          \
  X(gemm, GemmArgs, close)                                      \
  X(convert_operand, ConvertOperandArgs, same)                  \
  X(expand_operand, ExpandOperandArgs, close)                   \
  X(largest_magnitude, LargestMagnitudeArgs, same)              \
  X(quantization_error, QuantizationErrorArgs, same)            \
  X(square_magnitudes, SquareMagnitudesArgs, same)              \
  X(square_scales, SquareScalesArgs, same)                      \
  X(square_codes, SquareCodesArgs, same)                        \
  X(quantize_nf4, QuantizeNf4Args, none)                        \
  X(quantize_absmax, QuantizeAbsmaxArgs, none)                  \
  X(dequantize_nf4, DequantizeNf4Args, none)                    \
  X(dequantize_blocks, DequantizeBlocksArgs, none)              \
  X(note_amax, NoteAmaxArgs, same)                              \
  X(choose_amax, ChooseAmaxArgs, same)                          \
  X(column_sum, ColumnSumArgs, close)                           \
  X(bias_add, BiasAddArgs, same)                                \
  X(norm_forward, NormForwardArgs, close)                       \
  X(norm_backward, NormBackwardArgs, close)                     \
  X(activation_forward, ActivationForwardArgs, close)           \
  X(activation_backward, ActivationBackwardArgs, close)         \
  X(xielu_forward, XieluForwardArgs, close)                     \
  X(xielu_backward, XieluBackwardArgs, close)                   \
  X(rotary, RotaryArgs, same)                                   \
  X(attention_forward, AttentionForwardArgs, close)             \
  X(attention_delta, AttentionDeltaArgs, close)                 \
  X(attention_backward, AttentionBackwardArgs, close)           \
  X(attention_merge, AttentionMergeArgs, close)                 \
  X(attention_sink, AttentionSinkArgs, close)                   \
  X(attention_sink_backward, AttentionSinkBackwardArgs, close)  \
  X(repeat_heads, RepeatHeadsArgs, same)                        \
  X(sum_heads, SumHeadsArgs, same)                              \
  X(score_product, ScoreProductArgs, close)                     \
  X(score_rows, ScoreRowsArgs, same)                            \
  X(score_bias, ScoreBiasArgs, same)                            \
  X(score_bias_backward, ScoreBiasBackwardArgs, close)          \
  X(embedding_forward, EmbeddingForwardArgs, same)              \
  X(embedding_backward, EmbeddingBackwardArgs, same)            \
  X(cross_entropy_forward, CrossEntropyForwardArgs, close)      \
  X(cross_entropy_backward, CrossEntropyBackwardArgs, close)    \
  X(lse_share, LseShareArgs, close)                             \
  X(lse_join, LseJoinArgs, close)                               \
  X(reduce_rows, ReduceRowsArgs, same)                          \
  X(map_rows, MapRowsArgs, same)                                \
  X(add, AddArgs, same)                                         \
  X(multiply, MultiplyArgs, same)                               \
  X(copy, CopyArgs, same)                                       \
  X(sum_rows, SumRowsArgs, same)                                \
  X(scale, ScaleArgs, same)                                     \
  X(fill, FillArgs, same)                                       \
  X(dropout, DropoutArgs, same)                                 \
  X(random_normal, RandomNormalArgs, same)                      \
  X(reproducible_sum, ReproducibleSumArgs, same)                \
  X(reproducible_sums, ReproducibleSumsArgs, same)              \
  X(widen_sum, WidenSumArgs, same)                              \
  X(narrow_sum, NarrowSumArgs, same)                            \
  X(sum_value, SumValueArgs, same)                              \
  X(gradient_norm, GradientNormArgs, same)                      \
  X(adamw, AdamWListArgs, same)                                 \
  X(momentum, MomentumListArgs, same)                           \
  X(adafactor_limits, AdafactorLimitsArgs, same)                \
  X(adafactor_sums, AdafactorSumsArgs, same)                    \
  X(adafactor_moments, AdafactorMomentsArgs, close)             \
  X(adafactor_direction, AdafactorDirectionArgs, same)          \
  X(adafactor_update, AdafactorUpdateArgs, same)                \
  X(muon_momentum, MuonMomentumArgs, same)                      \
  X(normalize, NormalizeArgs, same)                             \
  X(muon_update, MuonUpdateArgs, same)                          \
  X(expand_state, ExpandStateArgs, same)                        \
  X(store_state, StoreStateArgs, same)                          \
  X(route, RouteArgs, close)                                    \
  X(route_backward, RouteBackwardArgs, close)                   \
  X(router_loss, RouterLossArgs, close)                         \
  X(count_choices, CountChoicesArgs, same)                      \
  X(load_error, LoadErrorArgs, same)                            \
  X(move_load_bias, MoveLoadBiasArgs, same)                     \
  X(count_margins, CountMarginsArgs, same)                      \
  X(quantile_bias, QuantileBiasArgs, same)                      \
  X(limit_experts, LimitExpertsArgs, same)                      \
  X(sinkhorn_bias, SinkhornArgs, close)                         \
  X(jitter, JitterArgs, same)                                   \
  X(random_rows, RandomRowsArgs, same)                          \
  X(sort_by_expert, SortByExpertArgs, same)                     \
  X(arrival_order, ArrivalOrderArgs, same)                      \
  X(combine_rows, CombineRowsArgs, same)                        \
  X(combine_rows_backward, CombineRowsBackwardArgs, close)      \
  X(row_dots, RowDotsArgs, close)                               \
  X(combine_weights_backward, CombineWeightsBackwardArgs, same) \
  X(grouped_gemm, GroupedGemmArgs, close)                       \
  X(expert_bias, ExpertBiasArgs, same)                          \
  X(expert_bias_backward, ExpertBiasBackwardArgs, same)

/// F(name): ops that are chosen and launched in one file. The cpu's are filled in by
/// cpu::add_NAME (ops/cpu/cpu_ops.h), which src/ops/cpu/ROOM/NAME_choose.cpp defines.
#define VIADUCT_OP_FAMILIES(F) \
  F(gemm)                      \
  F(largest_magnitude)         \
  F(quantization_error)        \
  F(square_codes)              \
  F(nf4)                       \
  F(dequantize_blocks)         \
  F(amax_history)              \
  F(norm)                      \
  F(activation)                \
  F(xielu)                     \
  F(rotary)                    \
  F(attention)                 \
  F(attention_sink)            \
  F(heads)                     \
  F(bias)                      \
  F(score_matrix)              \
  F(relative_bias)             \
  F(embedding)                 \
  F(cross_entropy)             \
  F(softmax)                   \
  F(elementwise)               \
  F(optimizer)                 \
  F(optimizer_state)           \
  F(muon)                      \
  F(routing)                   \
  F(router_extras)             \
  F(sinkhorn)                  \
  F(load_quantile)             \
  F(expert_rows)               \
  F(grouped_gemm)              \
  F(expert_bias)
