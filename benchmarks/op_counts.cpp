// Runs every hot op once between marks that callgrind counts instructions by: `./viaduct.sh
// counts`. AVX2 kernels on one thread (Valgrind 3.19 lacks AVX-512). Without Valgrind it only runs
// them.

#include <valgrind/callgrind.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "device/device.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/step_scalars.h"

namespace viaduct {
namespace {

class Counter {
 public:
  Tensor empty(DType dtype, const Shape& shape) const {
    return context_.allocate(dtype, shape, MemoryTag::activations);
  }
  Tensor random(DType dtype, const Shape& shape, uint64_t stream, double mean = 0) {
    const Tensor x = empty(dtype, shape);
    random_normal(context_, {x.view({x.elements()}), mean, 0.1, {1, stream}, 0, 0, x.elements()});
    return x;
  }
  /// One counted call after an uncounted one: one-time setup is not part of the kernel.
  template <class Op>
  void count(const std::string& name, Op&& op) {
    op();
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    op();
    CALLGRIND_DUMP_STATS_AT(name.c_str());
    CALLGRIND_STOP_INSTRUMENTATION;
    std::puts(name.c_str());
  }
  OpContext& context() { return context_; }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  OpTable ops_ = cpu_ops(CpuIsa::avx2);
  OpContext context_{*device_, ops_};
};

void count_gemm(Counter& c, const std::string& suffix, DType dtype) {
  constexpr int64_t M = 256, N = 192, K = 256;
  const Tensor x = c.random(dtype, {M, K}, 1), w = c.random(dtype, {N, K}, 2);
  const Tensor dy = c.random(dtype, {M, N}, 3), y = c.empty(dtype, {M, N});
  const Tensor dx = c.empty(dtype, {M, K}), dw = c.random(DType::f32, {N, K}, 4);
  const auto form = [&](const char* name, const GemmArgs& args) {
    c.count("gemm " + std::string(name) + suffix, [&] { gemm(c.context(), args); });
  };
  form("forward", {GemmForm::forward, x, w, y});
  form("data_gradient", {GemmForm::data_gradient, dy, w, dx});
  form("weight_gradient", {GemmForm::weight_gradient, dy, x, dw, {}, WriteMode::accumulate});
}

void count_attention(Counter& c, const std::string& suffix, DType dtype) {
  constexpr int64_t S = 256, N = 2, D = 64;
  AttentionProblem problem;
  problem.q_offsets = problem.kv_offsets = host_tensor(DType::i32, {2});
  problem.q_offsets.data<int32_t>()[1] = S;
  problem.scale = 1 / std::sqrt(static_cast<double>(D));
  problem.max_queries = problem.max_keys = S;
  const Shape shape{S, N, D};
  const Tensor q = c.random(dtype, shape, 1), k = c.random(dtype, shape, 2);
  const Tensor v = c.random(dtype, shape, 3), out = c.empty(dtype, shape);
  const Tensor d_out = c.random(dtype, shape, 4), dq = c.random(DType::f32, shape, 5);
  const Tensor dk = c.random(DType::f32, shape, 6), dv = c.random(DType::f32, shape, 7);
  const Tensor lse = c.empty(DType::f32, {N, S}), delta = c.empty(DType::f32, {N, S});
  c.count("attention_forward" + suffix, [&] {
    attention_forward(c.context(), {problem, q, k, v, out, lse});
  });
  c.count("attention_delta" + suffix, [&] { attention_delta(c.context(), {out, d_out, delta}); });
  c.count("attention_backward" + suffix, [&] {
    attention_backward(c.context(), {problem, q, k, v, d_out, lse, delta, dq, dk, dv});
  });
}

void count_norms(Counter& c, const std::string& suffix, DType dtype) {
  constexpr int64_t T = 256, H = 768;
  const Tensor x = c.random(dtype, {T, H}, 1), dy = c.random(dtype, {T, H}, 2);
  const Tensor weight = c.random(dtype, {H}, 3, 1), bias = c.random(dtype, {H}, 4);
  const Tensor y = c.empty(dtype, {T, H}), dx = c.empty(dtype, {T, H});
  const Tensor d_weight = c.random(DType::f32, {H}, 5), d_bias = c.random(DType::f32, {H}, 6);
  const Tensor mean = c.empty(DType::f32, {T}), rstd = c.empty(DType::f32, {T}), none;
  for (NormKind kind : {NormKind::rms_norm, NormKind::layer_norm}) {
    const bool layer = kind == NormKind::layer_norm;
    const std::string name = layer ? "layer_norm" : "rms_norm";
    c.count(name + "_forward" + suffix, [&] {
      norm_forward(c.context(),
                   {kind, x, weight, layer ? bias : none, y, layer ? mean : none, rstd});
    });
    c.count(name + "_backward" + suffix, [&] {
      norm_backward(c.context(), {kind, dy, x, weight, layer ? mean : none, rstd, none, dx,
                                  d_weight, layer ? d_bias : none});
    });
  }
}

void count_activations(Counter& c, const std::string& suffix, DType dtype) {
  constexpr int64_t T = 256, F = 1024;
  const Tensor in = c.random(dtype, {T, 2 * F}, 1), plain = c.random(dtype, {T, F}, 2);
  const Tensor out = c.random(dtype, {T, F}, 3), d_in = c.empty(dtype, {T, 2 * F});
  const Tensor d_plain = c.empty(dtype, {T, F});
  constexpr auto kSilu = ActivationKind::silu, kGelu = ActivationKind::gelu_tanh;
  c.count("swiglu_forward" + suffix, [&] {
    activation_forward(c.context(), {kSilu, true, in, out});
  });
  c.count("swiglu_backward" + suffix, [&] {
    activation_backward(c.context(), {kSilu, true, plain, in, d_in});
  });
  c.count("gelu_forward" + suffix, [&] {
    activation_forward(c.context(), {kGelu, false, plain, out});
  });
  c.count("gelu_backward" + suffix, [&] {
    activation_backward(c.context(), {kGelu, false, out, plain, d_plain});
  });
}

void count_rows(Counter& c, const std::string& suffix, DType dtype) {
  constexpr int64_t T = 256, H = 768, N = 12, D = 64, V = 1000;
  const Tensor x = c.random(dtype, {T, H}, 1), y = c.random(dtype, {T, H}, 2);
  const Tensor out = c.empty(dtype, {T, H}), table = c.random(dtype, {V, H}, 3);
  const Tensor d_table = c.random(DType::f32, {V, H}, 4);
  const Tensor ids = c.empty(DType::i32, {T}), tokens = c.empty(DType::i64, {T});
  for (int64_t t = 0; t < T; ++t) {
    ids.data<int32_t>()[t] = static_cast<int32_t>(t * 7 % V);
    tokens.data<int64_t>()[t] = t;
  }
  const Tensor angles = c.random(DType::f32, {V * 2, D / 2}, 5);
  const Tensor heads = x.view({T, N, D}), wide = c.random(DType::f32, {T, H}, 6);
  c.count("rotary" + suffix, [&] { rotary(c.context(), {heads, ids, angles, angles}); });
  c.count("embedding_forward" + suffix, [&] { embedding_forward(c.context(), {ids, table, out}); });
  c.count("embedding_backward" + suffix, [&] {
    embedding_backward(c.context(), {ids, x, d_table});
  });
  c.count("add" + suffix, [&] { add(c.context(), {x, y, out}); });
  c.count("copy to f32" + suffix, [&] { copy(c.context(), {x, wide}); });
  c.count("copy from f32" + suffix, [&] { copy(c.context(), {wide, out}); });
  c.count("column_sum" + suffix, [&] {
    column_sum(c.context(), {x, d_table.slice(0, 0, 1).view({H})});
  });
  c.count("dropout" + suffix, [&] { dropout(c.context(), {x, y, out, 0.1, {1, 2}, tokens}); });
}

void count_head(Counter& c) {
  constexpr int64_t T = 64, V = 4096;
  const Tensor logits = c.random(DType::f32, {T, V}, 1), d_logits = c.empty(DType::bf16, {T, V});
  const Tensor lse = c.empty(DType::f64, {T}), target_logit = c.empty(DType::f64, {T});
  const Tensor targets = c.empty(DType::i32, {T}), weight = c.random(DType::f32, {T}, 2, 1);
  const Tensor factor = c.empty(DType::f64, {1});
  fill(c.context(), {factor, 0.5});
  for (int64_t t = 0; t < T; ++t) targets.data<int32_t>()[t] = static_cast<int32_t>(t * 61 % V);
  c.count("cross_entropy_forward", [&] {
    cross_entropy_forward(c.context(), {logits, targets, lse, target_logit, V});
  });
  c.count("cross_entropy_backward bf16", [&] {
    cross_entropy_backward(c.context(), {logits, targets, lse, weight, factor, d_logits, V});
  });
}

void count_optimizer(Counter& c) {
  const Shape shape{1 << 18};
  const Tensor master = c.random(DType::f32, shape, 1), gradient = c.random(DType::f32, shape, 2);
  const Tensor first = c.random(DType::f32, shape, 3), second = c.random(DType::f32, shape, 4, 1);
  const Tensor weight = c.empty(DType::bf16, shape), scalars = c.empty(DType::f64, {kStepScalars});
  fill(c.context(), {scalars, 0.1});
  fill(c.context(), {step_scalar(scalars, StepScalar::skip), 0});
  const Tensor sum = c.empty(DType::f64, {kReproducibleSumSize});
  fill(c.context(), {sum, 0});
  c.count("adamw f32", [&] { adamw(c.context(), {master, gradient, first, second, {}, scalars}); });
  c.count("adamw bf16", [&] {
    adamw(c.context(), {master, gradient, first, second, weight, scalars});
  });
  c.count("reproducible_sum squared", [&] {
    reproducible_sum(c.context(), {gradient, {}, true, sum});
  });
  const Tensor normal = c.empty(DType::f32, {256, 256});
  c.count("random_normal", [&] { random_normal(c.context(), {normal, 0, 1, {1, 2}, 0, 0, 256}); });
}

}  // namespace
}  // namespace viaduct

int main() {
  using namespace viaduct;
  Counter counter;
  for (DType dtype : {DType::bf16, DType::f32}) {
    const std::string suffix = dtype == DType::bf16 ? " bf16" : " f32";
    count_gemm(counter, suffix, dtype);
    count_attention(counter, suffix, dtype);
    count_norms(counter, suffix, dtype);
    count_activations(counter, suffix, dtype);
    count_rows(counter, suffix, dtype);
  }
  count_head(counter);
  count_optimizer(counter);
}
