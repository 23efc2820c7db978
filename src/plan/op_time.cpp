#include "plan/op_time.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr std::string_view kFormatNames[kFlopFormats] = {"f64", "f32", "f16", "bf16", "fp8", "fp4"};

double rate_of(const FormatRates& rates, std::string_view format) {
  const auto found = rates.find(std::string(format));
  return found == rates.end() ? 0 : found->second;
}

/// `extra_passes` stands for chains of element-wise kernels in the runs that it was fitted to.
/// Kernels that make operands of FP8 and FP4 or their scales, and those that only move values (the
/// rows of experts among them) or multiply their rows, have no such chain in any trainer; nor have
/// cuDNN's kernels, whose backward writes and reads a matrix of gradients of scores.
bool is_one_pass(const OpEntryRecord& op) {
  const std::string_view name = op.op;
  return name == "convert_operand" || name == "largest_magnitude" || name.starts_with("square_") ||
         name == "embedding_forward" || name.starts_with("combine_") || name == "row_dots" ||
         name == "copy" || name == "fill" || op.kernel == "cudnn";
}

/// The format in which an op's operations of `format` run.
FlopFormat running_format(const OpEntryRecord& op, FlopFormat format,
                          const OpTimeSettings& settings) {
  if (!settings.narrow_experts || format != FlopFormat::f16 || op.op != "grouped_gemm")
    return format;
  if (op.kernel == "grouped_nvfp4") return FlopFormat::fp4;
  return op.kernel.find("fp8") != std::string::npos ? FlopFormat::fp8 : format;
}

}  // namespace

OpKind op_kind(const OpEntryRecord& op) {
  const std::string_view name = op.op;  // compares lengths first
  if (name == "gemm" || name == "grouped_gemm") return OpKind::product;
  // Of unfused attention: products that read or write the score matrix (ops/score_matrix.h).
  if (name == "attention_scores" || name == "attention_values" || name == "attention_keys")
    return OpKind::product;
  return name == "attention_forward" || name == "attention_backward" ? OpKind::attention
                                                                     : OpKind::other;
}

std::string_view op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::product:
      return "products";
    case OpKind::attention:
      return "attention";
    case OpKind::other:
      return "other";
  }
  return "";
}

OpTime::OpTime(const Gpu& gpu, const OpTimeSettings& settings)
    : settings_(settings), counted_(gpu, settings.head_size) {
  const double bf16 = rate_of(gpu.dense_flops, "bf16");
  for (int i = 0; i < kFlopFormats; ++i) {
    const auto format = static_cast<size_t>(i);
    const bool f16 = kFormatNames[i] == "f16";
    // FP16 products run at the rate of BF16 ones.
    double dense = rate_of(gpu.dense_flops, kFormatNames[i]);
    if (dense == 0 && f16) dense = bf16;
    const auto found_in = [&](const FormatRates& rates) {
      const double rate = rate_of(rates, kFormatNames[i]);
      return rate == 0 && f16 && dense == bf16 ? rate_of(rates, "bf16") : rate;
    };
    const double measured = found_in(gpu.measured_flops), steady = found_in(gpu.steady_flops);
    matrix_rates_[format] = measured > 0 ? measured : dense * settings.matrix_share;
    product_rates_[format] = steady > 0 ? steady : matrix_rates_[format] * settings.product_share;
    const double attention = found_in(gpu.library_attention_flops);
    library_attention_rates_[format] =
        attention > 0 ? attention : matrix_rates_[format] * settings.library_attention_share;
  }
  vector_rate_ = rate_of(gpu.dense_flops, "f32") * settings.vector_share;
  bandwidth_ = gpu.memory_bytes_per_second * settings.bandwidth_share;
}

double OpTime::least_seconds(double flops, OpKind kind, bool narrow) const {
  const bool attention = kind == OpKind::attention;
  const auto& rates = attention ? matrix_rates_ : product_rates_;
  const auto end = rates.begin() + static_cast<int>(FlopFormat::fp8);
  const double rate = *std::max_element(rates.begin(), narrow ? rates.end() : end);
  return flops / (rate * (attention ? settings_.attention_share : 1));
}

double OpTime::attention_rate(const OpEntryRecord& op, size_t format) const {
  constexpr int64_t kNarrow = 64;
  if (op.kernel != "cudnn" && !settings_.library_attention)
    return matrix_rates_[format] * settings_.attention_share;
  return library_attention_rates_[format] *
         (settings_.head_size <= kNarrow ? settings_.narrow_heads_share : 1);
}

double OpTime::seconds(const OpEntryRecord& op) const {
  const OpKind kind = op_kind(op);
  double compute = 0;
  for (int i = 0; i < kFlopFormats; ++i) {
    const double flops = op.cost.flops[static_cast<size_t>(i)];
    if (flops == 0) continue;
    const auto format = running_format(op, static_cast<FlopFormat>(i), settings_);
    const auto index = static_cast<size_t>(format);
    const double rate = kind == OpKind::other       ? vector_rate_
                        : kind == OpKind::attention ? attention_rate(op, index)
                                                    : product_rates_[index];
    VIADUCT_CHECK(ConfigError, rate > 0,
                  "prediction: {} computes in {}, but the GPU has no rate for it", op.op,
                  kFormatNames[static_cast<size_t>(format)]);
    const bool counted = settings_.own_kernels && kind != OpKind::other;
    compute += counted ? counted_.seconds(op, flops, flops / rate) : flops / rate;
  }
  if (kind != OpKind::other) compute += settings_.half_seconds;
  const auto bytes = static_cast<double>(op.cost.bytes_read + op.cost.bytes_written);
  double memory = bytes > 0 ? (bytes + settings_.half_bytes) / bandwidth_ : 0;
  // Attention with short windows too: of cuDNN's, forward and backward with windows of 128 and
  // heads of 64 take 0.675 ms for 4,096 tokens of 256 heads on GB200 (cudnn-frontend 1.23.0,
  // sdpa_benchmark_training/results/gpt_oss), and three passes over their operands 0.667 ms.
  if (kind != OpKind::product && !is_one_pass(op)) memory *= settings_.extra_passes;
  if (op.op == "activation_backward") memory += bytes * settings_.activation_gradient_delay;
  const double repeats = kind == OpKind::product ? settings_.product_repeats : 1;
  return repeats * (settings_.start_seconds * op.launches + std::max(compute, memory));
}

}  // namespace viaduct
