#pragma once
// The executable definition of every op: FP64 tensors, plain loops, straight from the formula of
// the contract. Backends are tested against it, and FP64 tensors on the cpu device run it, so whole
// layers run in FP64. One .cpp file a family; tensors are f64 (integers as in the contract),
// strides as the contract allows.

#include "ops/table.h"

namespace viaduct::reference {

void gemm(const GemmArgs& args);
void column_sum(const ColumnSumArgs& args);
void bias_add(const BiasAddArgs& args);
void norm_forward(const NormForwardArgs& args);
void norm_backward(const NormBackwardArgs& args);
void activation_forward(const ActivationForwardArgs& args);
void activation_backward(const ActivationBackwardArgs& args);
void xielu_forward(const XieluForwardArgs& args);
void xielu_backward(const XieluBackwardArgs& args);
void rotary(const RotaryArgs& args);
void attention_forward(const AttentionForwardArgs& args);
void attention_delta(const AttentionDeltaArgs& args);
void attention_backward(const AttentionBackwardArgs& args);
void attention_merge(const AttentionMergeArgs& args);
void attention_sink(const AttentionSinkArgs& args);
void attention_sink_backward(const AttentionSinkBackwardArgs& args);
void score_bias(const ScoreBiasArgs& args);
void score_bias_backward(const ScoreBiasBackwardArgs& args);
void repeat_heads(const RepeatHeadsArgs& args);
void sum_heads(const SumHeadsArgs& args);
void score_product(const ScoreProductArgs& args);
void score_softmax(const ScoreSoftmaxArgs& args);
void score_softmax_backward(const ScoreSoftmaxBackwardArgs& args);
void score_dropout(const ScoreDropoutArgs& args);
void embedding_forward(const EmbeddingForwardArgs& args);
void embedding_backward(const EmbeddingBackwardArgs& args);
void cross_entropy_forward(const CrossEntropyForwardArgs& args);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args);
void lse_share(const LseShareArgs& args);
void lse_join(const LseJoinArgs& args);
void soft_cap(const SoftCapArgs& args);
void soft_cap_backward(const SoftCapBackwardArgs& args);
void row_largest(const RowLargestArgs& args);
void row_exponential(const RowExponentialArgs& args);
void row_sum(const RowSumArgs& args);
void row_divide(const RowDivideArgs& args);
void row_pick(const RowPickArgs& args);
void softmax_loss_backward(const SoftmaxLossBackwardArgs& args);
void add(const AddArgs& args);
void multiply(const MultiplyArgs& args);
void scale(const ScaleArgs& args);
void dropout(const DropoutArgs& args);
void adamw(const AdamWArgs& args);
void momentum(const MomentumArgs& args);
void quantize_nf4(const QuantizeNf4Args& args);
void quantize_absmax(const QuantizeAbsmaxArgs& args);
void dequantize_nf4(const DequantizeNf4Args& args);
void dequantize_blocks(const DequantizeBlocksArgs& args);
void route(const RouteArgs& args);
void route_backward(const RouteBackwardArgs& args);
void router_loss(const RouterLossArgs& args);
void count_choices(const CountChoicesArgs& args);
void load_error(const LoadErrorArgs& args);
void move_load_bias(const MoveLoadBiasArgs& args);
void count_margins(const CountMarginsArgs& args);
void quantile_bias(const QuantileBiasArgs& args);
void limit_experts(const LimitExpertsArgs& args);
void sinkhorn_bias(const SinkhornArgs& args);
void jitter(const JitterArgs& args);
void random_rows(const RandomRowsArgs& args);
void sort_by_expert(const SortByExpertArgs& args);
void arrival_order(const ArrivalOrderArgs& args);
void combine_rows(const CombineRowsArgs& args);
void combine_rows_backward(const CombineRowsBackwardArgs& args);
void row_dots(const RowDotsArgs& args);
void combine_weights_backward(const CombineWeightsBackwardArgs& args);
void grouped_gemm(const GroupedGemmArgs& args);
void expert_bias(const ExpertBiasArgs& args);
void expert_bias_backward(const ExpertBiasBackwardArgs& args);

}  // namespace viaduct::reference
