#include "op_timings.h"

#include <cmath>

#include "operands_in_turn.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/costs.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/rotary.h"
#include "ops/step_scalars.h"
#include "plan/op_time.h"

namespace viaduct::cli {
namespace {

constexpr double kSecondsOfRound = 0.02;
/// FP32 logits that the head makes at once (ops/dispatch.h).
constexpr int64_t kLogitBytes = int64_t{128} << 20;

class OpTimer {
 public:
  OpTimer(BenchDevice& device, const LayerShape& shape, int rounds)
      : device_(device), shape_(shape), rounds_(rounds) {}

  std::vector<OpTiming> run() {
    products(shape_.hidden, shape_.hidden);
    products(shape_.ffn, shape_.hidden);
    products(shape_.hidden, shape_.ffn);
    attention();
    norm();
    activation();
    rotation();
    passes();
    embedding();
    loss();
    optimizer();
    return std::move(timings_);
  }

 private:
  Tensor random(DType dtype, const Shape& shape) { return device_.random(dtype, shape, ++stream_); }
  Tensor empty(DType dtype, const Shape& shape) {
    return context_.allocate(dtype, shape, MemoryTag::other);
  }
  Tensor filled(DType dtype, const Shape& shape, double value) {
    const Tensor x = empty(dtype, shape);
    fill(context_, {x, value});
    return x;
  }
  /// So many operands that the calls' parts of `bytes_of_call` do not stay in the last cache.
  OperandsInTurn in_turn(DType dtype, Shape shape, int64_t bytes_of_call) {
    const int64_t count = operands_beyond_cache(bytes_of_call, device_.cache_bytes());
    shape[0] *= count;
    return {random(dtype, shape), count};
  }

  /// Times `call`, which gets its number and runs one op.
  template <class Call>
  void add_timing(Call&& call) {
    StepRecord record;
    record.set_with_shapes(true);
    device_.device().set_record(&record);
    call(0);
    device_.device().set_record(nullptr);
    const OpEntryRecord& op = record.ops().front();
    const Cost& cost = op.cost;
    timings_.push_back({std::string(op.op), std::string(op.kernel), op.shapes,
                        op_kind(op) == OpKind::other ? Bound::memory : Bound::product,
                        device_.seconds_of_call(call, kSecondsOfRound, rounds_), cost.total_flops(),
                        static_cast<double>(cost.bytes_read + cost.bytes_written)});
  }

  /// The three products of a layer with a weight of n × k.
  void products(int64_t n, int64_t k) {
    const int64_t m = shape_.tokens, width = dtype_bytes(shape_.dtype);
    const DType dtype = shape_.dtype;
    const Tensor x = random(dtype, {m, k}), dy = random(dtype, {m, n});
    {
      const OperandsInTurn w = in_turn(dtype, {n, k}, width * (n * k + m * n));
      const OperandsInTurn y = in_turn(dtype, {m, n}, width * (n * k + m * n));
      add_timing([&](int64_t i) { gemm(context_, {GemmForm::forward, x, w.at(i), y.at(i)}); });
    }
    const int64_t bytes = width * (n * k + m * k);
    const OperandsInTurn kept = in_turn(dtype, {m, k}, bytes);
    {
      const OperandsInTurn w = in_turn(dtype, {n, k}, bytes);
      add_timing([&](int64_t i) {
        gemm(context_, {GemmForm::data_gradient, dy, w.at(i), kept.at(i)});
      });
    }
    const OperandsInTurn dw = in_turn(DType::f32, {n, k}, bytes);
    add_timing([&](int64_t i) {
      gemm(context_,
           {GemmForm::weight_gradient, dy, kept.at(i), dw.at(i), {}, WriteMode::accumulate});
    });
  }

  /// Causal, of documents of `sequence` tokens. Its operands are larger than a cache or fit in it
  /// in a step as well.
  void attention() {
    const int64_t length = shape_.sequence, documents = shape_.tokens / length;
    const int64_t tokens = documents * length;
    const Tensor offsets = host_tensor(DType::i32, {documents + 1});
    for (int64_t d = 0; d <= documents; ++d)
      offsets.data<int32_t>()[d] = static_cast<int32_t>(d * length);
    AttentionProblem problem;
    problem.q_offsets = problem.kv_offsets = device_.on_device(offsets);
    problem.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim()));
    problem.max_queries = problem.max_keys = length;
    problem.visible_pairs = static_cast<double>(documents) * causal_pairs(length);
    const Shape queries{tokens, shape_.heads, shape_.head_dim()};
    const Shape keys{tokens, shape_.kv_heads, shape_.head_dim()};
    const DType dtype = shape_.dtype;
    const Tensor q = random(dtype, queries), k = random(dtype, keys), v = random(dtype, keys);
    const Tensor out = empty(dtype, queries), d_out = random(dtype, queries);
    const Tensor lse = empty(DType::f32, {shape_.heads, tokens});
    const Tensor delta = empty(DType::f32, {shape_.heads, tokens});
    const Tensor dq = empty(DType::f32, queries);
    const Tensor dk = empty(DType::f32, keys), dv = empty(DType::f32, keys);
    add_timing([&](int64_t) { attention_forward(context_, {problem, q, k, v, out, lse}); });
    add_timing([&](int64_t) { attention_delta(context_, {out, d_out, delta}); });
    const AttentionBackwardArgs gradients{problem, q, k, v, d_out, lse, delta, dq, dk, dv};
    add_timing([&](int64_t) { attention_backward(context_, gradients); });
    // By the contract: a GPU computes scores again, which its choice counts.
    timings_.back().flops = cost_of(gradients).total_flops();
  }

  void norm() {
    const int64_t bytes = 2 * shape_.tokens * shape_.hidden * dtype_bytes(shape_.dtype);
    const Shape rows{shape_.tokens, shape_.hidden};
    const OperandsInTurn x = in_turn(shape_.dtype, rows, bytes);
    const OperandsInTurn y = in_turn(shape_.dtype, rows, bytes);
    const Tensor weight = random(shape_.dtype, {shape_.hidden});
    const Tensor rstd = filled(DType::f32, {shape_.tokens}, 1);
    const Tensor d_weight = filled(DType::f32, {shape_.hidden}, 0);
    add_timing([&](int64_t i) {
      norm_forward(context_, {NormKind::rms_norm, x.at(i), weight, {}, y.at(i), {}, rstd});
    });
    const OperandsInTurn dx = in_turn(shape_.dtype, rows, bytes);
    add_timing([&](int64_t i) {
      norm_backward(
          context_,
          {NormKind::rms_norm, y.at(i), x.at(i), weight, {}, rstd, {}, dx.at(i), d_weight, {}});
    });
  }

  void activation() {
    const int64_t bytes = 3 * shape_.tokens * shape_.ffn * dtype_bytes(shape_.dtype);
    const OperandsInTurn in = in_turn(shape_.dtype, {shape_.tokens, 2 * shape_.ffn}, bytes);
    const OperandsInTurn out = in_turn(shape_.dtype, {shape_.tokens, shape_.ffn}, bytes);
    add_timing([&](int64_t i) {
      activation_forward(context_, {ActivationKind::silu, true, in.at(i), out.at(i)});
    });
    // In place, as a layer runs it.
    add_timing([&](int64_t i) {
      activation_backward(context_, {ActivationKind::silu, true, out.at(i), in.at(i), in.at(i)});
    });
  }

  void rotation() {
    const Shape heads{shape_.tokens, shape_.heads, shape_.head_dim()};
    const OperandsInTurn x =
        in_turn(shape_.dtype, heads, shape_.tokens * shape_.hidden * dtype_bytes(shape_.dtype));
    const Tensor positions = device_.integers(DType::i32, shape_.tokens, shape_.sequence);
    const Shape table{shape_.sequence, shape_.head_dim() / 2};
    const Tensor cos = filled(DType::f32, table, 0.8), sin = filled(DType::f32, table, 0.6);
    add_timing([&](int64_t i) { rotary(context_, {x.at(i), positions, cos, sin}); });
  }

  void passes() {
    const int64_t bytes = 3 * shape_.tokens * shape_.hidden * dtype_bytes(shape_.dtype);
    const Shape rows{shape_.tokens, shape_.hidden};
    const OperandsInTurn a = in_turn(shape_.dtype, rows, bytes);
    const OperandsInTurn b = in_turn(shape_.dtype, rows, bytes);
    const OperandsInTurn c = in_turn(shape_.dtype, rows, bytes);
    add_timing([&](int64_t i) { copy(context_, {a.at(i), b.at(i)}); });
    add_timing([&](int64_t i) { add(context_, {a.at(i), b.at(i), c.at(i)}); });
    const Tensor tokens = device_.integers(DType::i64, shape_.tokens, int64_t{1} << 40);
    add_timing([&](int64_t i) {
      dropout(context_, {a.at(i), b.at(i), c.at(i), 0.1, {1, 2}, tokens, 0});
    });
  }

  void embedding() {
    const Tensor ids = device_.integers(DType::i32, shape_.tokens, shape_.vocab);
    const Tensor weight = random(shape_.dtype, {shape_.vocab, shape_.hidden});
    const Tensor rows = random(shape_.dtype, {shape_.tokens, shape_.hidden});
    add_timing([&](int64_t) { embedding_forward(context_, {ids, weight, rows}); });
    const Tensor d_weight = filled(DType::f32, {shape_.vocab, shape_.hidden}, 0);
    add_timing([&](int64_t) { embedding_backward(context_, {ids, rows, d_weight}); });
  }

  void loss() {
    const int64_t rows = std::clamp<int64_t>(kLogitBytes / 4 / shape_.vocab, 1, shape_.tokens);
    const OperandsInTurn logits =
        in_turn(DType::f32, {rows, shape_.vocab}, 4 * rows * shape_.vocab);
    const Tensor targets = device_.integers(DType::i32, rows, shape_.vocab);
    const Tensor lse = empty(DType::f64, {rows}), target_logit = empty(DType::f64, {rows});
    add_timing([&](int64_t i) {
      cross_entropy_forward(context_, {logits.at(i), targets, lse, target_logit, shape_.vocab});
    });
    const Tensor weight = filled(DType::f32, {rows}, 1), factor = filled(DType::f64, {1}, 1);
    const OperandsInTurn out = in_turn(DType::f32, {rows, shape_.vocab}, 4 * rows * shape_.vocab);
    add_timing([&](int64_t i) {
      cross_entropy_backward(context_,
                             {logits.at(i), targets, lse, weight, factor, out.at(i), shape_.vocab});
    });
  }

  /// Of the weight of one product: masters, gradients and moments in FP32.
  void optimizer() {
    const Shape run{shape_.hidden * shape_.ffn};
    const int64_t bytes = run.elements() * (16 + dtype_bytes(shape_.dtype));
    const OperandsInTurn gradient = in_turn(DType::f32, run, bytes);
    const Tensor state = filled(DType::f64, {kReproducibleSumSize}, 0);
    add_timing([&](int64_t i) { reproducible_sum(context_, {gradient.at(i), {}, true, state}); });
    const OperandsInTurn master = in_turn(DType::f32, run, bytes);
    const OperandsInTurn first = in_turn(DType::f32, run, bytes);
    const int64_t count = operands_beyond_cache(bytes, device_.cache_bytes());
    const OperandsInTurn second{filled(DType::f32, {run.elements() * count}, 1e-3), count};
    const OperandsInTurn weight =
        in_turn(shape_.dtype == DType::f32 ? DType::bf16 : shape_.dtype, run, bytes);
    const Tensor scalars = filled(DType::f64, {kStepScalars}, 1e-3);
    fill(context_, {step_scalar(scalars, StepScalar::skip), 0});
    add_timing([&](int64_t i) {
      adamw(context_,
            {master.at(i), gradient.at(i), first.at(i), second.at(i), weight.at(i), scalars});
    });
  }

  BenchDevice& device_;
  const LayerShape& shape_;
  int rounds_;
  OpContext context_ = device_.context();
  uint64_t stream_ = 0;
  std::vector<OpTiming> timings_;
};

}  // namespace

std::vector<OpTiming> time_ops(BenchDevice& device, const LayerShape& shape, int rounds) {
  return OpTimer(device, shape, rounds).run();
}

double op_timing_bytes(const BenchDevice& device, const LayerShape& shape) {
  const auto area = [](int64_t rows, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  const double products =
      4 * (2 * area(shape.hidden, shape.ffn) + 3 * area(shape.tokens, shape.hidden + shape.ffn));
  const double table = 8 * area(shape.vocab, shape.hidden);
  const double states = 18 * area(shape.hidden, shape.ffn);
  return std::max({products, table, states}) + 20 * static_cast<double>(device.cache_bytes());
}

}  // namespace viaduct::cli
