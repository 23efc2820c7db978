// Attention on FP8 codes compared with the definition in FP64 with the same roundings: of q, k, v
// and d_out, which are given as codes, of probabilities and of gradients of scores.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ops/reference/attention_queries.h"
#include "support/tensor_bytes.h"
#include "tensor/number_formats.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::attention_cases;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

constexpr float kScales[] = {0.011f, 0.0073f, 0.0019f}, kGradientScale = 3e-7f;

Tensor floats(std::initializer_list<float> values) {
  const Tensor tensor = host_tensor(DType::f32, {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, tensor.data<float>());
  return tensor;
}

/// The values times `factor` as contiguous codes.
Tensor codes_of(const Tensor& from, DType element, double factor) {
  const Tensor codes = host_tensor(element, from.shape());
  for (int64_t i = 0; i < from.elements(); ++i) {
    const auto value = static_cast<float>(factor * test::element(from, i));
    static_cast<uint8_t*>(codes.raw())[i] =
        element == DType::e4m3 ? float8_e4m3(value).bits : float8_e5m2(value).bits;
  }
  return codes;
}

double e4m3(double x) {
  return static_cast<float>(float8_e4m3(static_cast<float>(x)));
}
double e5m2(double x) {
  return static_cast<float>(float8_e5m2(static_cast<float>(x)));
}

/// The numbers of codes in FP64.
Tensor numbers_of(const Tensor& codes) {
  const Tensor numbers = host_tensor(DType::f64, codes.shape());
  for (int64_t i = 0; i < codes.elements(); ++i) {
    const uint8_t bits = static_cast<const uint8_t*>(codes.raw())[i];
    numbers.data<double>()[i] = codes.dtype() == DType::e4m3
                                    ? static_cast<float>(std::bit_cast<float8_e4m3>(bits))
                                    : static_cast<float>(std::bit_cast<float8_e5m2>(bits));
  }
  return numbers;
}

/// A case as codes. Values of queries and keys are ±448 times their scales: scores of some units.
struct Codes {
  AttentionData data;
  Tensor q, k, v, d_out, d_out_scale = floats({kGradientScale});
  AttentionProblem problem;

  Codes(const AttentionCase& c, DType out, DType gradient) : data(c, out), problem(data.problem) {
    q = codes_of(data.q, DType::e4m3, 448 / c.size),
    k = codes_of(data.k, DType::e4m3, 448 / c.size);
    v = codes_of(data.v, DType::e4m3, 448 / c.size);
    d_out = codes_of(data.d_out, gradient, (gradient == DType::e5m2 ? 57344 : 448) / c.size);
    problem.scales = floats({kScales[0], kScales[1], kScales[2]});
  }
  AttentionForwardArgs forward() const { return {problem, q, k, v, data.out, data.lse}; }
  AttentionDeltaArgs row_sums() const { return {data.out, d_out, data.delta, {}, d_out_scale}; }
  AttentionBackwardArgs backward() const {
    return {problem, q, k, v, d_out, data.lse, data.delta, data.dq, data.dk, data.dv, d_out_scale};
  }
};

/// The definition. `rounds` false: probabilities and gradients of scores are not rounded.
struct Definition {
  Tensor out, lse, dq, dk, dv;
  Tensor q, k, v, d_out;
  const Codes& x;
  bool rounds;

  Definition(const Codes& codes, bool rounded)
      : out(host_tensor(DType::f64, codes.data.out.shape())),
        lse(host_tensor(DType::f64, codes.data.lse.shape())),
        dq(test::to_f64(codes.data.dq)),
        dk(test::to_f64(codes.data.dk)),
        dv(test::to_f64(codes.data.dv)),
        q(numbers_of(codes.q)),
        k(numbers_of(codes.k)),
        v(numbers_of(codes.v)),
        d_out(numbers_of(codes.d_out)),
        x(codes),
        rounds(rounded) {}

  double* row(const Tensor& t, int64_t token, int64_t head) const {
    return t.data<double>() + token * t.stride(0) + head * t.stride(1);
  }
  double dot(const Tensor& a, int64_t i, int64_t n, const Tensor& b, int64_t j, int64_t m) const {
    double sum = 0;
    for (int64_t at = 0; at < a.dim(2); ++at) sum += row(a, i, n)[at] * row(b, j, m)[at];
    return sum;
  }
  double score(const reference::AttentionQuery& at, int64_t j) const {
    const AttentionProblem& p = x.problem;
    const double s = p.scale * double{kScales[0]} * kScales[1] *
                     dot(q, at.token, at.head, k, at.key_token + j, at.kv_head);
    return p.softcap > 0 ? p.softcap * std::tanh(s / p.softcap) : s;
  }
  template <class F>
  void for_queries(F&& f) const {
    reference::for_attention_queries(x.problem, q.dim(1), k.dim(1), f);
  }

  void forward() {
    const double infinity = std::numeric_limits<double>::infinity();
    for_queries([&](const reference::AttentionQuery& at) {
      double largest = -infinity, total = 0;
      for (int64_t j = at.first; j < at.last; ++j) largest = std::max(largest, score(at, j));
      double& statistic = lse.data<double>()[at.head * q.dim(0) + at.token];
      statistic = -infinity;
      if (at.first >= at.last) return;
      const double power = std::ceil(largest / std::log(2.0)) * std::log(2.0);
      double* to = row(out, at.token, at.head);
      for (int64_t j = at.first; j < at.last; ++j) {
        const double exact = std::exp(score(at, j) - power);
        const double p = rounds ? e4m3(256 * exact) / 256 : exact;
        total += p;
        const double used = p * reference::attention_keep(x.problem, at, j) * kScales[2];
        for (int64_t i = 0; i < v.dim(2); ++i)
          to[i] += used * row(v, at.key_token + j, at.kv_head)[i];
      }
      for (int64_t i = 0; i < v.dim(2); ++i) to[i] /= total;
      statistic = power + std::log(total);
    });
  }

  /// From the op's log-sum-exp and delta.
  void backward() {
    const double factor = x.problem.dropout > 0 ? 1 / (1 - x.problem.dropout) : 1;
    const double largest = x.d_out.dtype() == DType::e5m2 ? 57344 : 448;
    const double bound = 2 * factor * static_cast<double>(v.dim(2)) * 448 * double{kScales[2]} *
                         largest * kGradientScale;
    const double unit = std::exp2(std::ceil(std::log2(bound / 57344)));
    for_queries([&](const reference::AttentionQuery& at) {
      const int64_t place = at.head * q.dim(0) + at.token;
      const double known = x.data.lse.data<float>()[place];
      if (std::isinf(known)) return;
      for (int64_t j = at.first; j < at.last; ++j) {
        const int64_t key = at.key_token + j;
        const double s = score(at, j), p = std::exp(s - known);
        const double keep = reference::attention_keep(x.problem, at, j);
        const double dp = keep * double{kGradientScale} * kScales[2] *
                          dot(d_out, at.token, at.head, v, key, at.kv_head);
        const double capped = x.problem.softcap > 0 ? s / x.problem.softcap : 0;
        double ds = p * (dp - x.data.delta.data<float>()[place]) * (1 - capped * capped);
        EXPECT_LE(std::abs(ds), bound);
        if (rounds) ds = unit * e5m2(ds / unit);
        ds *= x.problem.scale;
        const double used = (rounds ? e4m3(256 * p) / 256 : p) * keep * kGradientScale;
        for (int64_t i = 0; i < v.dim(2); ++i)
          row(dv, key, at.kv_head)[i] += used * row(d_out, at.token, at.head)[i];
        for (int64_t i = 0; i < q.dim(2); ++i) {
          row(dq, at.token, at.head)[i] += ds * kScales[1] * row(k, key, at.kv_head)[i];
          row(dk, key, at.kv_head)[i] += ds * kScales[0] * row(q, at.token, at.head)[i];
        }
      }
    });
  }
};

/// ‖a − b‖ / ‖b − start‖, for results that were added to `start`.
double distance(const Tensor& a, const Tensor& b, const Tensor& start = {}) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double right = test::element(b, i), from = start ? test::element(start, i) : 0;
    if (std::isinf(right)) {
      EXPECT_EQ(test::element(a, i), right);
      continue;
    }
    difference += std::pow(test::element(a, i) - right, 2), size += std::pow(right - from, 2);
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < b.elements(); ++i)
    most = std::max(most, std::abs(test::element(a, i) - test::element(b, i)));
  return most;
}

class AttentionFp8 : public ::testing::TestWithParam<CpuIsa> {};

// If FP32 and FP64 round a probability to different neighbours, which happens once in some ten
// thousand, the difference is 6 % of it.
constexpr double kFlips = 2e-3;

TEST_P(AttentionFp8, ForwardIsTheDefinition) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : attention_cases()) {
    for (const DType out : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(out)));
      const Codes codes(c, out, DType::e5m2);
      attention_forward(context, codes.forward());
      Definition rounded(codes, true), exact(codes, false);
      rounded.forward(), exact.forward();
      const double of_out = 0.3 * dtype_epsilon(out);
      EXPECT_LT(distance(codes.data.out, rounded.out), kFlips + of_out);
      EXPECT_LT(distance(codes.data.lse, rounded.lse), kFlips);
      if (c.queries() < 30 || c.keys() < 30 || c.window == 1 || c.width == 1) continue;
      if (out == DType::f32) {
        EXPECT_GT(distance(codes.data.out, exact.out), 3 * kFlips);
      }
    }
  }
}

TEST_P(AttentionFp8, BackwardIsTheDefinition) {
  OpMachine machine(GetParam(), 2, {cpu::add_attention});
  OpContext context = machine.context();
  for (const AttentionCase& c : attention_cases()) {
    for (const DType gradient : {DType::e5m2, DType::e4m3}) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(gradient)));
      const Codes codes(c, DType::f32, gradient);
      for (const Tensor& sum : {codes.data.dq, codes.data.dk, codes.data.dv})
        for (int64_t i = 0; i < sum.elements(); ++i) sum.data<float>()[i] *= 1e-6f;
      const Tensor dq = test::to_f64(codes.data.dq), dk = test::to_f64(codes.data.dk),
                   dv = test::to_f64(codes.data.dv);
      attention_forward(context, codes.forward());
      attention_delta(context, codes.row_sums());
      Definition rounded(codes, true), exact(codes, false);
      for (int64_t t = 0; t < c.queries(); ++t) {
        for (int64_t n = 0; n < c.heads; ++n) {
          double delta = 0;
          for (int64_t i = 0; i < c.value_width; ++i)
            delta +=
                rounded.row(rounded.d_out, t, n)[i] * double{kGradientScale} *
                codes.data.out
                    .data<float>()[t * codes.data.out.stride(0) + n * codes.data.out.stride(1) + i];
          const double ours = codes.data.delta.data<float>()[n * c.queries() + t];
          EXPECT_NEAR(ours, delta,
                      1e-5 * c.value_width * 448 * 57344 * kGradientScale * kScales[2]);
        }
      }
      rounded.backward(), exact.backward();
      attention_backward(context, codes.backward());
      EXPECT_LT(distance(codes.data.dv, rounded.dv, dv), kFlips);
      if (c.window == 1) {  // a single score has no gradient; where there is one it is about 0.01
        EXPECT_LT(largest_difference(codes.data.dq, dq), 1e-5);
        EXPECT_LT(largest_difference(codes.data.dk, dk), 1e-5);
        continue;
      }
      EXPECT_LT(distance(codes.data.dq, rounded.dq, dq), kFlips);
      EXPECT_LT(distance(codes.data.dk, rounded.dk, dk), kFlips);
      if (c.queries() < 30 || c.keys() < 30 || c.window == 1 || c.width == 1) continue;
      EXPECT_GT(distance(codes.data.dq, exact.dq, dq), 5 * kFlips);
      EXPECT_GT(distance(codes.data.dk, exact.dk, dk), 5 * kFlips);
      EXPECT_GT(distance(codes.data.dv, exact.dv, dv), 5 * kFlips);
    }
  }
}

TEST_P(AttentionFp8, ThreadsChangeNoBit) {
  AttentionCase c = attention_cases().front();
  c.q_offsets = c.kv_offsets = {0, 150, 301}, c.heads = 4, c.dropout = 0.2;
  std::vector<std::string> bytes;
  for (const int threads : {1, 3}) {
    OpMachine machine(GetParam(), threads, {cpu::add_attention});
    OpContext context = machine.context();
    const Codes codes(c, DType::bf16, DType::e5m2);
    attention_forward(context, codes.forward());
    attention_delta(context, codes.row_sums());
    attention_backward(context, codes.backward());
    std::string all;
    for (const Tensor& t : {codes.data.out, codes.data.lse, codes.data.delta, codes.data.dq,
                            codes.data.dk, codes.data.dv})
      all += test::bytes_of(t);
    bytes.push_back(all);
  }
  EXPECT_TRUE(bytes[0] == bytes[1]);
}

// A row sum of codes equals that of their numbers.
TEST_P(AttentionFp8, DeltaOfCodes) {
  OpMachine machine(GetParam(), 1, {cpu::add_attention});
  OpContext context = machine.context();
  const Tensor a = codes_of(test::random_tensor(DType::f32, {5, 3, 70}, 1), DType::e4m3, 448);
  const Tensor b = codes_of(test::random_tensor(DType::f32, {5, 3, 70}, 2), DType::e5m2, 57344);
  const Tensor delta = host_tensor(DType::f32, {3, 5});
  attention_delta(context, {a, b, delta, floats({0.5f}), floats({0.25f})});
  const Tensor left = numbers_of(a), right = numbers_of(b);
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t n = 0; n < 3; ++n) {
      double sum = 0, terms = 0;
      for (int64_t i = 0; i < 70; ++i) {
        const double term = left.data<double>()[(t * 3 + n) * 70 + i] *
                            right.data<double>()[(t * 3 + n) * 70 + i] / 8;
        sum += term, terms += std::abs(term);
      }
      EXPECT_NEAR(delta.data<float>()[n * 5 + t], sum, 1e-6 * terms);
    }
  }
}

TEST_P(AttentionFp8, CodesComeWithScales) {
  OpMachine machine(GetParam(), 1, {cpu::add_attention});
  OpContext context = machine.context();
  const Codes codes(attention_cases().front(), DType::bf16, DType::e5m2);
  AttentionForwardArgs forward = codes.forward();
  forward.problem.scales = {};
  EXPECT_THROW(attention_forward(context, forward), ShapeError);
  forward = codes.forward();
  forward.q = codes.data.q;
  EXPECT_THROW(attention_forward(context, forward), ShapeError);
  AttentionBackwardArgs backward = codes.backward();
  backward.d_out = codes.data.d_out, backward.d_out_scale = {};
  EXPECT_THROW(attention_backward(context, backward), ShapeError);
}

// A scale of NaN, as for an operand with an infinity, shows in all results.
TEST_P(AttentionFp8, AScaleThatIsNotANumberShows) {
  OpMachine machine(GetParam(), 1, {cpu::add_attention});
  OpContext context = machine.context();
  for (const int which : {0, 1, 2, 3}) {
    const Codes codes(attention_cases().front(), DType::f32, DType::e5m2);
    attention_forward(context, codes.forward());
    attention_delta(context, codes.row_sums());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    (which < 3 ? codes.problem.scales.data<float>()[which] : codes.d_out_scale.data<float>()[0]) =
        nan;
    if (which < 3) {
      attention_forward(context, codes.forward());
      EXPECT_TRUE(std::isnan(codes.data.out.data<float>()[0])) << which;
    }
    attention_backward(context, codes.backward());
    EXPECT_TRUE(std::isnan(codes.data.dq.data<float>()[0])) << which;
    EXPECT_TRUE(std::isnan(codes.data.dk.data<float>()[0])) << which;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionFp8, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
