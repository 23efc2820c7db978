#pragma once
// The table of ops: one entry per op, filled by a backend, immutable afterwards. The application
// builds it; nothing registers itself.

#include "ops/activation.h"
#include "ops/adafactor.h"
#include "ops/amax_history.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"
#include "ops/bias.h"
#include "ops/convert_operand.h"
#include "ops/cross_entropy.h"
#include "ops/dequantize_blocks.h"
#include "ops/dispatch.h"
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

struct OpTable {
  Traits traits;

  OpEntry<GemmArgs> gemm;
  /// Forms that the products' operands have; null: plain tensors.
  GemmForms (*gemm_forms)(const GemmRequest&, const Traits&) = nullptr;
  /// The part of a request that producers make besides their matrix; null: nothing.
  FormsRequest (*produced_forms)(const FormsRequest&, const Traits&) = nullptr;
  OpEntry<ConvertOperandArgs> convert_operand;  // empty where there are no other forms
  OpEntry<ExpandOperandArgs> expand_operand;    // likewise
  OpEntry<LargestMagnitudeArgs> largest_magnitude;
  OpEntry<QuantizationErrorArgs> quantization_error;
  OpEntry<SquareMagnitudesArgs> square_magnitudes;
  OpEntry<SquareScalesArgs> square_scales;
  OpEntry<SquareCodesArgs> square_codes;
  OpEntry<QuantizeNf4Args> quantize_nf4;
  OpEntry<QuantizeAbsmaxArgs> quantize_absmax;
  OpEntry<DequantizeNf4Args> dequantize_nf4;
  OpEntry<DequantizeBlocksArgs> dequantize_blocks;
  OpEntry<NoteAmaxArgs> note_amax;
  OpEntry<ChooseAmaxArgs> choose_amax;
  OpEntry<ColumnSumArgs> column_sum;
  OpEntry<BiasAddArgs> bias_add;
  OpEntry<NormForwardArgs> norm_forward;
  OpEntry<NormBackwardArgs> norm_backward;
  OpEntry<ActivationForwardArgs> activation_forward;
  OpEntry<ActivationBackwardArgs> activation_backward;
  OpEntry<XieluForwardArgs> xielu_forward;
  OpEntry<XieluBackwardArgs> xielu_backward;
  OpEntry<RotaryArgs> rotary;
  OpEntry<AttentionForwardArgs> attention_forward;
  OpEntry<AttentionDeltaArgs> attention_delta;
  OpEntry<AttentionBackwardArgs> attention_backward;
  OpEntry<AttentionMergeArgs> attention_merge;
  OpEntry<AttentionSinkArgs> attention_sink;
  OpEntry<AttentionSinkBackwardArgs> attention_sink_backward;
  OpEntry<RepeatHeadsArgs> repeat_heads;
  OpEntry<SumHeadsArgs> sum_heads;
  /// Products of a score matrix round their factors to the format of q: they may be stored in it.
  bool narrow_score_factors = false;
  OpEntry<ScoreProductArgs> score_product;
  OpEntry<ScoreSoftmaxArgs> score_softmax;
  OpEntry<ScoreSoftmaxBackwardArgs> score_softmax_backward;
  OpEntry<ScoreDropoutArgs> score_dropout;
  OpEntry<ScoreBiasArgs> score_bias;
  OpEntry<ScoreBiasBackwardArgs> score_bias_backward;
  OpEntry<EmbeddingForwardArgs> embedding_forward;
  OpEntry<EmbeddingBackwardArgs> embedding_backward;
  OpEntry<CrossEntropyForwardArgs> cross_entropy_forward;
  OpEntry<CrossEntropyBackwardArgs> cross_entropy_backward;
  OpEntry<LseShareArgs> lse_share;
  OpEntry<LseJoinArgs> lse_join;
  OpEntry<SoftCapArgs> soft_cap;
  OpEntry<SoftCapBackwardArgs> soft_cap_backward;
  OpEntry<RowLargestArgs> row_largest;
  OpEntry<RowExponentialArgs> row_exponential;
  OpEntry<RowSumArgs> row_sum;
  OpEntry<RowDivideArgs> row_divide;
  OpEntry<RowPickArgs> row_pick;
  OpEntry<SoftmaxLossBackwardArgs> softmax_loss_backward;
  OpEntry<AddArgs> add;
  OpEntry<MultiplyArgs> multiply;
  OpEntry<CopyArgs> copy;
  OpEntry<SumRowsArgs> sum_rows;
  OpEntry<ScaleArgs> scale;
  OpEntry<FillArgs> fill;
  OpEntry<DropoutArgs> dropout;
  OpEntry<RandomNormalArgs> random_normal;
  OpEntry<ReproducibleSumArgs> reproducible_sum;
  OpEntry<ReproducibleSumsArgs> reproducible_sums;
  OpEntry<WidenSumArgs> widen_sum;
  OpEntry<NarrowSumArgs> narrow_sum;
  OpEntry<SumValueArgs> sum_value;
  OpEntry<GradientNormArgs> gradient_norm;
  OpEntry<AdamWListArgs> adamw;
  OpEntry<MomentumListArgs> momentum;
  OpEntry<AdafactorLimitsArgs> adafactor_limits;
  OpEntry<AdafactorSumsArgs> adafactor_sums;
  OpEntry<AdafactorMomentsArgs> adafactor_moments;
  OpEntry<AdafactorDirectionArgs> adafactor_direction;
  OpEntry<AdafactorUpdateArgs> adafactor_update;
  OpEntry<MuonMomentumArgs> muon_momentum;
  OpEntry<NormalizeArgs> normalize;
  OpEntry<MuonUpdateArgs> muon_update;
  OpEntry<ExpandStateArgs> expand_state;
  OpEntry<StoreStateArgs> store_state;
  OpEntry<RouteArgs> route;
  OpEntry<RouteBackwardArgs> route_backward;
  OpEntry<RouterLossArgs> router_loss;
  OpEntry<CountChoicesArgs> count_choices;
  OpEntry<LoadErrorArgs> load_error;
  OpEntry<MoveLoadBiasArgs> move_load_bias;
  OpEntry<CountMarginsArgs> count_margins;
  OpEntry<QuantileBiasArgs> quantile_bias;
  OpEntry<LimitExpertsArgs> limit_experts;
  OpEntry<SinkhornArgs> sinkhorn_bias;
  OpEntry<JitterArgs> jitter;
  OpEntry<RandomRowsArgs> random_rows;
  OpEntry<SortByExpertArgs> sort_by_expert;
  OpEntry<ArrivalOrderArgs> arrival_order;
  OpEntry<CombineRowsArgs> combine_rows;
  OpEntry<CombineRowsBackwardArgs> combine_rows_backward;
  OpEntry<RowDotsArgs> row_dots;
  OpEntry<CombineWeightsBackwardArgs> combine_weights_backward;
  OpEntry<GroupedGemmArgs> grouped_gemm;
  OpEntry<ExpertBiasArgs> expert_bias;
  OpEntry<ExpertBiasBackwardArgs> expert_bias_backward;
};

}  // namespace viaduct
