#pragma once
// How long a kernel runs on a GPU of the catalog, computed from its cost, where nothing was
// measured.
//
//   seconds = start + max(operations / rate, bytes / bandwidth)
//
// Matrix products run at the rate that large ones keep up, where that was measured
// (Gpu::steady_flops), else at a share of the best measured rate, or of the dense peak; attention
// at a share of the best one; our own kernels of attention and of experts no faster than their
// instructions allow (counted_kernels.h). Small products and small passes over memory take longer.

#include "hardware/cluster.h"
#include "plan/counted_kernels.h"
#include "timeline/record.h"

namespace viaduct {

/// What an op mostly does: matrix products, attention, or passes over memory.
enum class OpKind { product, attention, other };
inline constexpr int kOpKinds = 3;
OpKind op_kind(const OpEntryRecord& op);
std::string_view op_kind_name(OpKind kind);

/// The constants of the formula. Those marked as fitted come from the published runs that
/// docs/plan-accuracy.md names as calibration rows; the others are round figures.
struct OpTimeSettings {
  double matrix_share = 0.8;      // of the dense peak, if no product was measured
  double product_share = 0.85;    // fitted: of the best rate, where no steady one was measured
  double attention_share = 0.44;  // fitted: of the measured rate that attention reaches
  /// The same with cuDNN's kernels, where they were not measured (Gpu::library_attention_flops):
  /// fitted to the rows of llama3-8b and llama3.1-8b of the codes that run them.
  double library_attention_share = 0.65;
  /// Of cuDNN's rate with heads of 128, what it reaches with heads of at most 64: forward and
  /// backward on 4,096 tokens on the H100 (FlashAttention-3, arXiv 2407.08608, figures 5 and 6).
  double narrow_heads_share = 0.79;
  int64_t head_size = 128;  // of the model
  /// Time of all products, against those of the record: other trainers repeat single products in
  /// the backward, for which there is no unit of recomputation here.
  double product_repeats = 1;
  /// Seconds that the backward of activations takes longer for each byte of its operands: with one
  /// release of other trainers' libraries it was slow.
  double activation_gradient_delay = 0;
  double vector_share = 0.6;     // of the FP32 peak that kernels without matrix units reach
  double bandwidth_share = 0.9;  // of the memory bandwidth that large kernels reach
  double extra_passes = 3.0;     // fitted: time of all but products, against our fused kernels
  double start_seconds = 2e-6;   // from one kernel to the next on the device
  double half_seconds = 5e-6;    // a product that takes this long at full rate reaches half of it
  double half_bytes = 2e6;       // a pass over this many bytes reaches half of the bandwidth
  /// Quantized products of experts run at the rate of their operands' format also where ours run at
  /// that of FP16 (ops/cuda/kernels/grouped_codes.h).
  bool narrow_experts = false;
  bool library_attention = false;  // attention is cuDNN's also where our own kernels would run
  /// Ops run on our own kernels, as the record names them; false: on those of another trainer.
  bool own_kernels = true;
};

class OpTime {
 public:
  explicit OpTime(const Gpu& gpu, const OpTimeSettings& settings = {});
  /// Of all launches of the op together.
  double seconds(const OpEntryRecord& op) const;
  /// Of operations of products or attention in the format that is fastest: no op takes less.
  /// `narrow`: some may have operands of FP8 or FP4.
  double least_seconds(double flops, OpKind kind, bool narrow) const;

 private:
  double attention_rate(const OpEntryRecord& op, size_t format) const;

  OpTimeSettings settings_;
  CountedKernels counted_;
  // By FlopFormat:
  std::array<double, kFlopFormats> matrix_rates_{};   // the best of products
  std::array<double, kFlopFormats> product_rates_{};  // of products of a step
  std::array<double, kFlopFormats> library_attention_rates_{};
  double vector_rate_ = 0;
  double bandwidth_ = 0;
};

}  // namespace viaduct
