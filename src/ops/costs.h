#pragma once
// What ops cost by their contracts, whatever the backend: the operations of the formula, in the
// format in which vector units compute the dtype (FP32, FP64 for f64), and the bytes of each
// operand once. A backend's `choose` starts from these and adds what its kernels do beyond them.

#include "ops/activation.h"
#include "ops/adafactor.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"
#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/dequantize_blocks.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expert_bias.h"
#include "ops/expert_rows.h"
#include "ops/gemm.h"
#include "ops/heads.h"
#include "ops/momentum.h"
#include "ops/muon.h"
#include "ops/nf4.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/optimizer_state.h"
#include "ops/quantization_error.h"
#include "ops/relative_bias.h"
#include "ops/rotary.h"
#include "ops/score_matrix.h"
#include "ops/softmax.h"
#include "ops/square_codes.h"
#include "ops/xielu.h"

namespace viaduct {

/// 0 if undefined.
inline int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.bytes() : 0;
}

/// Adds operations in the format that vector units compute `dtype` in.
void add_vector_flops(Cost& cost, DType dtype, double flops);
/// Moves the operations of FP32 to another format: that of matrix units.
void move_flops(Cost& cost, FlopFormat to);

/// The cost of the product, and of its epilogue.
Cost cost_of(const GemmArgs& args);
Cost epilogue_cost(const GemmArgs& args);
Cost cost_of(const ColumnSumArgs& args);
Cost cost_of(const BiasAddArgs& args);
Cost cost_of(const NormForwardArgs& args);
Cost cost_of(const NormBackwardArgs& args);
Cost cost_of(const ActivationForwardArgs& args);
Cost cost_of(const ActivationBackwardArgs& args);
Cost cost_of(const XieluForwardArgs& args);
Cost cost_of(const XieluBackwardArgs& args);
Cost cost_of(const RotaryArgs& args);
Cost cost_of(const AttentionForwardArgs& args);
Cost cost_of(const AttentionDeltaArgs& args);
Cost cost_of(const AttentionBackwardArgs& args);
Cost cost_of(const AttentionMergeArgs& args);
Cost cost_of(const AttentionSinkArgs& args);
Cost cost_of(const AttentionSinkBackwardArgs& args);
Cost cost_of(const RepeatHeadsArgs& args);
Cost cost_of(const SumHeadsArgs& args);
Cost cost_of(const ScoreProductArgs& args);
Cost cost_of(const ScoreSoftmaxArgs& args);
Cost cost_of(const ScoreSoftmaxBackwardArgs& args);
Cost cost_of(const ScoreDropoutArgs& args);
Cost cost_of(const ScoreBiasArgs& args);
Cost cost_of(const ScoreBiasBackwardArgs& args);
Cost cost_of(const SoftCapArgs& args);
Cost cost_of(const SoftCapBackwardArgs& args);
Cost cost_of(const RowLargestArgs& args);
Cost cost_of(const RowExponentialArgs& args);
Cost cost_of(const RowSumArgs& args);
Cost cost_of(const RowDivideArgs& args);
Cost cost_of(const RowPickArgs& args);
Cost cost_of(const SoftmaxLossBackwardArgs& args);
Cost cost_of(const CombineRowsBackwardArgs& args);
Cost cost_of(const RowDotsArgs& args);
Cost cost_of(const CombineWeightsBackwardArgs& args);
Cost cost_of(const ExpertBiasArgs& args);
Cost cost_of(const ExpertBiasBackwardArgs& args);
Cost cost_of(const EmbeddingForwardArgs& args);
Cost cost_of(const EmbeddingBackwardArgs& args);
Cost cost_of(const CrossEntropyForwardArgs& args);
Cost cost_of(const CrossEntropyBackwardArgs& args);
Cost cost_of(const LseShareArgs& args);
Cost cost_of(const LseJoinArgs& args);
Cost cost_of(const AddArgs& args);
Cost cost_of(const MultiplyArgs& args);
Cost cost_of(const CopyArgs& args);
Cost cost_of(const SumRowsArgs& args);
Cost cost_of(const ScaleArgs& args);
Cost cost_of(const FillArgs& args);
/// Random numbers cost about 16 integer operations per element, which no format counts.
Cost cost_of(const DropoutArgs& args);
Cost cost_of(const RandomNormalArgs& args);
Cost cost_of(const ReproducibleSumArgs& args);
Cost cost_of(const ReproducibleSumsArgs& args);
Cost cost_of(const WidenSumArgs& args);
Cost cost_of(const NarrowSumArgs& args);
Cost cost_of(const SumValueArgs& args);
Cost cost_of(const GradientNormArgs& args);
Cost cost_of(const AdamWListArgs& args);
Cost cost_of(const MomentumListArgs& args);
Cost cost_of(const AdafactorLimitsArgs& args);
Cost cost_of(const AdafactorSumsArgs& args);
Cost cost_of(const AdafactorMomentsArgs& args);
Cost cost_of(const AdafactorDirectionArgs& args);
Cost cost_of(const AdafactorUpdateArgs& args);
Cost cost_of(const MuonMomentumArgs& args);
Cost cost_of(const NormalizeArgs& args);
Cost cost_of(const MuonUpdateArgs& args);
Cost cost_of(const ExpandStateArgs& args);
Cost cost_of(const StoreStateArgs& args);
/// An operand that is made here is written, and read again.
Cost cost_of(const QuantizationErrorArgs& args);
Cost cost_of(const SquareMagnitudesArgs& args);
Cost cost_of(const SquareScalesArgs& args);
Cost cost_of(const SquareCodesArgs& args);
Cost cost_of(const QuantizeNf4Args& args);
Cost cost_of(const QuantizeAbsmaxArgs& args);
Cost cost_of(const DequantizeNf4Args& args);
Cost cost_of(const DequantizeBlocksArgs& args);

}  // namespace viaduct
