// Rates of matrix products and of attention.

#include <array>
#include <cmath>

#include "calibrator.h"
#include "ops/attention.h"
#include "ops/gemm.h"

namespace viaduct::cli {
void Calibrator::measure_gemm(std::vector<CalibratedGemm>& rows) {
  // Output and input features: tiny, those of small and of wide layers.
  constexpr int64_t kFeatures[][2] = {{64, 64},    {384, 384},   {1024, 384},  {384, 1024},
                                      {2048, 768}, {1024, 1024}, {4096, 1024}, {1024, 4096}};
  for (DType dtype : {DType::bf16, DType::f32})
    for (int64_t m : {128, 512, 1024, 2048, 4096})
      for (const auto& [n, k] : kFeatures)
        if (2.0 * static_cast<double>(m * n * k) <= most_flops_)
          measure_products(rows, dtype, m, n, k);
}

// As in a step: what the op before has just made (x of the forward, dy of the backward) is in the
// caches as far as it fits; weights, what the forward kept, and results are in memory.
void Calibrator::measure_products(std::vector<CalibratedGemm>& rows, DType dtype, int64_t m,
                                  int64_t n, int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const auto add = [&](const char* form, double time) {
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
  constexpr int64_t kTokens = 4096, kWidth = 512;
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (int64_t D : {64, 128}) {
      for (int64_t S : {256, 1024, 4096}) {
        const int64_t heads = kWidth / D;
        // Approximate FLOPs of the forward of one document.
        const double work = 2 * static_cast<double>(S * S * kWidth);
        const int64_t documents = std::min(kTokens / S, static_cast<int64_t>(most_flops_ / work));
        if (documents < 1) continue;
        AttentionProblem problem;
        problem.q_offsets = empty(DType::i32, {documents + 1});
        for (int64_t d = 0; d <= documents; ++d)
          problem.q_offsets.data<int32_t>()[d] = static_cast<int32_t>(d * S);
        problem.kv_offsets = problem.q_offsets;
        problem.scale = 1 / std::sqrt(static_cast<double>(D));
        problem.max_queries = problem.max_keys = S;
        const Shape shape{documents * S, heads, D};
        const Tensor q = random(dtype, shape, 1), k = random(dtype, shape, 2);
        const Tensor v = random(dtype, shape, 3), out = random(dtype, shape, 4);
        const Tensor d_out = random(dtype, shape, 5), dq = random(DType::f32, shape, 6);
        const Tensor dk = random(DType::f32, shape, 7), dv = random(DType::f32, shape, 8);
        const Tensor lse = empty(DType::f32, {heads, documents * S});
        const Tensor delta = empty(DType::f32, {heads, documents * S});
        const auto forward = [&] { attention_forward(context_, {problem, q, k, v, out, lse}); };
        const auto backward = [&] {
          attention_backward(context_, {problem, q, k, v, d_out, lse, delta, dq, dk, dv});
        };
        const auto add_row = [&](const char* direction, double flops, double time) {
          rows.push_back({direction, calibrated_name(dtype), S, documents, heads, heads, D,
                          flops / time * 1e-12});
        };
        add_row("forward", cost(forward).total_flops(), seconds([&](int64_t) { forward(); }));
        attention_delta(context_, {out, d_out, delta});
        add_row("backward", cost(backward).total_flops(), seconds([&](int64_t) { backward(); }));
      }
    }
  }
}

}  // namespace viaduct::cli
