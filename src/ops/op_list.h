#pragma once
// The list of ops: the name of each and the struct of its arguments. The table of ops has an entry
// for each, checks and emulators walk them (ops/table.h).

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

/// X(name, Args)
#define VIADUCT_OPS(X)                                    \
  X(gemm, GemmArgs)                                       \
  X(convert_operand, ConvertOperandArgs)                  \
  X(expand_operand, ExpandOperandArgs)                    \
  X(largest_magnitude, LargestMagnitudeArgs)              \
  X(quantization_error, QuantizationErrorArgs)            \
  X(square_magnitudes, SquareMagnitudesArgs)              \
  X(square_scales, SquareScalesArgs)                      \
  X(square_codes, SquareCodesArgs)                        \
  X(quantize_nf4, QuantizeNf4Args)                        \
  X(quantize_absmax, QuantizeAbsmaxArgs)                  \
  X(dequantize_nf4, DequantizeNf4Args)                    \
  X(dequantize_blocks, DequantizeBlocksArgs)              \
  X(note_amax, NoteAmaxArgs)                              \
  X(choose_amax, ChooseAmaxArgs)                          \
  X(column_sum, ColumnSumArgs)                            \
  X(bias_add, BiasAddArgs)                                \
  X(norm_forward, NormForwardArgs)                        \
  X(norm_backward, NormBackwardArgs)                      \
  X(activation_forward, ActivationForwardArgs)            \
  X(activation_backward, ActivationBackwardArgs)          \
  X(xielu_forward, XieluForwardArgs)                      \
  X(xielu_backward, XieluBackwardArgs)                    \
  X(rotary, RotaryArgs)                                   \
  X(attention_forward, AttentionForwardArgs)              \
  X(attention_delta, AttentionDeltaArgs)                  \
  X(attention_backward, AttentionBackwardArgs)            \
  X(attention_merge, AttentionMergeArgs)                  \
  X(attention_sink, AttentionSinkArgs)                    \
  X(attention_sink_backward, AttentionSinkBackwardArgs)   \
  X(repeat_heads, RepeatHeadsArgs)                        \
  X(sum_heads, SumHeadsArgs)                              \
  X(score_product, ScoreProductArgs)                      \
  X(score_softmax, ScoreSoftmaxArgs)                      \
  X(score_softmax_backward, ScoreSoftmaxBackwardArgs)     \
  X(score_dropout, ScoreDropoutArgs)                      \
  X(score_bias, ScoreBiasArgs)                            \
  X(score_bias_backward, ScoreBiasBackwardArgs)           \
  X(embedding_forward, EmbeddingForwardArgs)              \
  X(embedding_backward, EmbeddingBackwardArgs)            \
  X(cross_entropy_forward, CrossEntropyForwardArgs)       \
  X(cross_entropy_backward, CrossEntropyBackwardArgs)     \
  X(lse_share, LseShareArgs)                              \
  X(lse_join, LseJoinArgs)                                \
  X(soft_cap, SoftCapArgs)                                \
  X(soft_cap_backward, SoftCapBackwardArgs)               \
  X(row_largest, RowLargestArgs)                          \
  X(row_exponential, RowExponentialArgs)                  \
  X(row_sum, RowSumArgs)                                  \
  X(row_divide, RowDivideArgs)                            \
  X(row_pick, RowPickArgs)                                \
  X(softmax_loss_backward, SoftmaxLossBackwardArgs)       \
  X(add, AddArgs)                                         \
  X(multiply, MultiplyArgs)                               \
  X(copy, CopyArgs)                                       \
  X(sum_rows, SumRowsArgs)                                \
  X(scale, ScaleArgs)                                     \
  X(fill, FillArgs)                                       \
  X(dropout, DropoutArgs)                                 \
  X(random_normal, RandomNormalArgs)                      \
  X(reproducible_sum, ReproducibleSumArgs)                \
  X(reproducible_sums, ReproducibleSumsArgs)              \
  X(widen_sum, WidenSumArgs)                              \
  X(narrow_sum, NarrowSumArgs)                            \
  X(sum_value, SumValueArgs)                              \
  X(gradient_norm, GradientNormArgs)                      \
  X(adamw, AdamWListArgs)                                 \
  X(momentum, MomentumListArgs)                           \
  X(adafactor_limits, AdafactorLimitsArgs)                \
  X(adafactor_sums, AdafactorSumsArgs)                    \
  X(adafactor_moments, AdafactorMomentsArgs)              \
  X(adafactor_direction, AdafactorDirectionArgs)          \
  X(adafactor_update, AdafactorUpdateArgs)                \
  X(muon_momentum, MuonMomentumArgs)                      \
  X(normalize, NormalizeArgs)                             \
  X(muon_update, MuonUpdateArgs)                          \
  X(expand_state, ExpandStateArgs)                        \
  X(store_state, StoreStateArgs)                          \
  X(route, RouteArgs)                                     \
  X(route_backward, RouteBackwardArgs)                    \
  X(router_loss, RouterLossArgs)                          \
  X(count_choices, CountChoicesArgs)                      \
  X(load_error, LoadErrorArgs)                            \
  X(move_load_bias, MoveLoadBiasArgs)                     \
  X(count_margins, CountMarginsArgs)                      \
  X(quantile_bias, QuantileBiasArgs)                      \
  X(limit_experts, LimitExpertsArgs)                      \
  X(sinkhorn_bias, SinkhornArgs)                          \
  X(jitter, JitterArgs)                                   \
  X(random_rows, RandomRowsArgs)                          \
  X(sort_by_expert, SortByExpertArgs)                     \
  X(arrival_order, ArrivalOrderArgs)                      \
  X(combine_rows, CombineRowsArgs)                        \
  X(combine_rows_backward, CombineRowsBackwardArgs)       \
  X(row_dots, RowDotsArgs)                                \
  X(combine_weights_backward, CombineWeightsBackwardArgs) \
  X(grouped_gemm, GroupedGemmArgs)                        \
  X(expert_bias, ExpertBiasArgs)                          \
  X(expert_bias_backward, ExpertBiasBackwardArgs)
