// Rates of matrix products and of attention.

#include <algorithm>
#include <cmath>

#include "calibrator.h"
#include "ops/attention.h"
#include "ops/costs.h"
#include "ops/gemm.h"

namespace viaduct::cli {
namespace {

struct Product {
  int64_t m, n, k;
  double flops() const { return 2.0 * static_cast<double>(m * n * k); }
};

/// Tokens, output and input features: tiny layers, small and wide ones, and on GPUs those of large
/// models.
std::vector<Product> products_to_measure(bool gpu) {
  constexpr int64_t kFeatures[][2] = {{64, 64},    {384, 384},   {1024, 384},  {384, 1024},
                                      {2048, 768}, {1024, 1024}, {4096, 1024}, {1024, 4096}};
  constexpr int64_t kWide[][2] = {{4096, 4096}, {14336, 4096}, {4096, 14336}, {8192, 8192}};
  std::vector<Product> products;
  for (int64_t m : {128, 512, 1024, 2048, 4096})
    for (const auto& [n, k] : kFeatures) products.push_back({m, n, k});
  if (!gpu) return products;
  for (int64_t m : {512, 2048, 8192, 16384})
    for (const auto& [n, k] : kWide) products.push_back({m, n, k});
  std::stable_sort(products.begin(), products.end(),
                   [](const Product& a, const Product& b) { return a.flops() < b.flops(); });
  return products;
}

}  // namespace

void Calibrator::measure_gemm(std::vector<CalibratedGemm>& rows) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    best_rate_ = 0;
    const size_t before = rows.size();
    for (const auto& [m, n, k] : products_to_measure(bench_.gpu().has_value())) {
      const double flops = 2.0 * static_cast<double>(m * n * k);
      // On a GPU the smallest is measured in any case: the limit of the others follows from it.
      if (flops <= flops_limit() || (bench_.gpu() && rows.size() == before))
        measure_products(rows, dtype, m, n, k);
    }
  }
}

// As in a step: what the op before has just made (x of the forward, dy of the backward) is in the
// caches as far as it fits; weights, what the forward kept, and results are in memory.
void Calibrator::measure_products(std::vector<CalibratedGemm>& rows, DType dtype, int64_t m,
                                  int64_t n, int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const auto add = [&](const char* form, double time) {
    note_rate(flops, time);
    rows.push_back({form, calibrated_name(dtype), m, n, k, flops / time * 1e-12});
  };
  const int64_t bytes = dtype_bytes(dtype), weight = bytes * n * k;
  const Tensor x = random(dtype, {m, k}, 1), dy = random(dtype, {m, n}, 3);
  const auto count = [&](int64_t others) {
    return operands_beyond_cache(weight + bytes * others, cache_bytes_);
  };
  {
    const OperandsInTurn w = in_turn(dtype, {n, k}, count(m * n), 2);
    const OperandsInTurn y = in_turn(dtype, {m, n}, count(m * n), 4);
    add("forward", seconds([&](int64_t i) {
          gemm(context_, {GemmForm::forward, x, w.at(i), y.at(i)});
        }));
  }
  {
    const OperandsInTurn w = in_turn(dtype, {n, k}, count(m * k), 2);
    const OperandsInTurn dx = in_turn(dtype, {m, k}, count(m * k), 5);
    add("data_gradient", seconds([&](int64_t i) {
          gemm(context_, {GemmForm::data_gradient, dy, w.at(i), dx.at(i)});
        }));
  }
  const OperandsInTurn kept = in_turn(dtype, {m, k}, count(m * k), 1);
  const OperandsInTurn dw = in_turn(DType::f32, {n, k}, count(m * k), 6);
  add("weight_gradient", seconds([&](int64_t i) {
        gemm(context_,
             {GemmForm::weight_gradient, dy, kept.at(i), dw.at(i), {}, WriteMode::accumulate});
      }));
}

void Calibrator::measure_attention(std::vector<CalibratedAttention>& rows) {
  constexpr int64_t kWidth = 512;
  const int64_t tokens = bench_.gpu() ? 16384 : 4096;
  std::vector<int64_t> lengths{256, 1024, 4096};
  if (bench_.gpu()) lengths = {128, 256, 1024, 4096, 8192};
  for (DType dtype : {DType::bf16, DType::f32}) {
    best_rate_ = 0;
    for (int64_t D : {64, 128}) {
      for (int64_t S : lengths) {
        // Approximate FLOPs of the forward of one document.
        const double work = 2 * static_cast<double>(S * S * kWidth);
        int64_t documents = std::min(tokens / S, static_cast<int64_t>(flops_limit() / work));
        // As for products, the limit of a GPU follows from the first.
        if (bench_.gpu() && best_rate_ == 0) documents = 1;
        if (documents > 0) measure_attention_of(rows, dtype, S, documents, kWidth / D, D);
      }
    }
  }
}

void Calibrator::measure_attention_of(std::vector<CalibratedAttention>& rows, DType dtype,
                                      int64_t S, int64_t documents, int64_t heads, int64_t D) {
  const Tensor offsets = host_tensor(DType::i32, {documents + 1});
  for (int64_t d = 0; d <= documents; ++d) offsets.data<int32_t>()[d] = static_cast<int32_t>(d * S);
  AttentionProblem problem;
  problem.q_offsets = problem.kv_offsets = bench_.on_device(offsets);
  problem.scale = 1 / std::sqrt(static_cast<double>(D));
  problem.max_queries = problem.max_keys = S;
  problem.visible_pairs = static_cast<double>(documents) * causal_pairs(S);
  const Shape shape{documents * S, heads, D};
  const Tensor q = random(dtype, shape, 1), k = random(dtype, shape, 2);
  const Tensor v = random(dtype, shape, 3), out = random(dtype, shape, 4);
  const Tensor d_out = random(dtype, shape, 5), dq = random(DType::f32, shape, 6);
  const Tensor dk = random(DType::f32, shape, 7), dv = random(DType::f32, shape, 8);
  const Tensor lse = empty(DType::f32, {heads, documents * S});
  const Tensor delta = empty(DType::f32, {heads, documents * S});
  const auto forward = [&] { attention_forward(context_, {problem, q, k, v, out, lse}); };
  const AttentionBackwardArgs gradients{problem, q, k, v, d_out, lse, delta, dq, dk, dv};
  const auto add_row = [&](const char* direction, double flops, double time) {
    note_rate(flops, time);
    rows.push_back(
        {direction, calibrated_name(dtype), S, documents, heads, heads, D, flops / time * 1e-12});
  };
  add_row("forward", cost(forward).total_flops(), seconds([&](int64_t) { forward(); }));
  attention_delta(context_, {out, d_out, delta});
  // By the contract: a GPU computes scores again, which its choice counts.
  add_row("backward", cost_of(gradients).total_flops(),
          seconds([&](int64_t) { attention_backward(context_, gradients); }));
}

}  // namespace viaduct::cli
