#pragma once
// Σ|terms| of the tolerance rule for attention: every product of the formula with magnitudes
// instead of values. A score is a sum with terms scale · |q·k|; since p = e^(s − …), an error of a
// score is a relative error of p, so terms of p count once more for each unit of the score's terms.

#include <algorithm>
#include <cmath>

#include "unit/ops/attention_cases.h"

namespace viaduct::test {

struct AttentionBounds {
  double terms = 0;  // K of the rule: length of the longest chain of sums
  Tensor out, lse, dq, dk, dv, d_bias;

  /// For FP64 data; gradients start from the values that they are added to.
  explicit AttentionBounds(const AttentionData& x)
      : out(host_tensor(DType::f64, x.out.shape())),
        lse(host_tensor(DType::f64, x.lse.shape())),
        dq(magnitudes(x.dq)),
        dk(magnitudes(x.dk)),
        dv(magnitudes(x.dv)),
        d_bias(x.d_bias ? magnitudes(x.d_bias) : Tensor()) {
    const AttentionProblem& problem = x.problem;
    const int64_t D = x.q.dim(2), Dv = x.v.dim(2), N = x.q.dim(1), K = x.k.dim(1), T = x.q.dim(0);
    const auto at = [](const Tensor& t, int64_t token, int64_t head) {
      return t.data<double>() + token * t.stride(0) + head * t.stride(1);
    };
    const auto product = [](const double* a, const double* b, int64_t size, bool magnitude) {
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += magnitude ? std::abs(a[i] * b[i]) : a[i] * b[i];
      return sum;
    };
    const double kept = 1 / (1 - problem.dropout);
    for (int64_t d = 0; d + 1 < problem.q_offsets.dim(0); ++d) {
      const auto run = [&](const Tensor& offsets) {
        return std::pair<int64_t, int64_t>(offsets.data<int32_t>()[d],
                                           offsets.data<int32_t>()[d + 1]);
      };
      const auto [q0, q1] = run(problem.q_offsets);
      const auto [k0, k1] = run(problem.kv_offsets);
      terms = std::max(terms, static_cast<double>(D + Dv + (k1 - k0) + (q1 - q0) * N / K));
      const int64_t e = problem.diagonal ? problem.diagonal.data<int32_t>()[d] : 0;
      for (int64_t i = 0; i < q1 - q0; ++i) {
        const int64_t first =
            problem.window > 0 ? std::max<int64_t>(0, i + e - problem.window + 1) : 0;
        const int64_t last = problem.causal ? std::min(k1 - k0, i + e + 1) : k1 - k0;
        for (int64_t n = 0; n < N; ++n) {
          const int64_t t = q0 + i, h = n / (N / K);
          double total = 0, largest_terms = 0, largest = -1e300;
          std::vector<double> s, p;
          for (int64_t j = first; j < last; ++j) {
            double score = problem.scale * product(at(x.q, t, n), at(x.k, k0 + j, h), D, false);
            if (problem.softcap > 0) score = problem.softcap * std::tanh(score / problem.softcap);
            double score_terms =
                problem.scale * product(at(x.q, t, n), at(x.k, k0 + j, h), D, true);
            if (problem.bias) {
              const double bias = problem.bias.data<double>()[bias_at(problem, i + e, j, n)];
              score += bias;
              score_terms += std::abs(bias);
            }
            largest_terms = std::max(largest_terms, score_terms);
            s.push_back(score);
            largest = std::max(largest, score);
          }
          for (double score : s) total += std::exp(score - largest);
          for (double score : s) p.push_back(std::exp(score - largest) / total);
          const double log_sum = s.empty() ? 0 : largest + std::log(total);
          double grow = 1 + 2 * largest_terms + std::abs(log_sum);
          if (problem.softcap > 0) grow += 2 * largest_terms / problem.softcap;
          lse.data<double>()[n * T + t] = s.empty() ? 0 : grow;
          const double delta = std::abs(x.delta.data<double>()[n * T + t]);
          for (int64_t j = first; j < last; ++j) {
            const double pj = p[static_cast<size_t>(j - first)] * grow;
            const double dp = kept * product(at(x.d_out, t, n), at(x.v, k0 + j, h), Dv, true);
            const double ds = pj * (dp + delta) * problem.scale;
            for (int64_t c = 0; c < Dv; ++c) {
              at(out, t, n)[c] += pj * kept * std::abs(at(x.v, k0 + j, h)[c]);
              at(dv, k0 + j, h)[c] += pj * kept * std::abs(at(x.d_out, t, n)[c]);
            }
            if (d_bias) {
              terms = std::max(terms, static_cast<double>(T));
              d_bias.data<double>()[bias_at(problem, i + e, j, n)] += pj * (dp + delta);
            }
            for (int64_t c = 0; c < D; ++c) {
              at(dq, t, n)[c] += ds * std::abs(at(x.k, k0 + j, h)[c]);
              at(dk, k0 + j, h)[c] += ds * std::abs(at(x.q, t, n)[c]);
            }
          }
        }
      }
    }
  }

  /// Of key j and the query in this place.
  static int64_t bias_at(const AttentionProblem& problem, int64_t place, int64_t j, int64_t head) {
    return relative_bucket(problem.relative, j - place) * problem.bias.dim(1) + head;
  }

  /// The additional error that ops/attention.h allows where probabilities and score gradients are
  /// rounded to `format`. `narrow`: the gradients of scores are computed from rounded probabilities
  /// too (ops/score_matrix.h).
  void allow_rounded_factors(DType format = DType::bf16, bool narrow = false) {
    const double half_unit = format == DType::f16 ? 0x1p-11 : 0x1p-8;
    const double share = half_unit / (4 * 0x1p-23 * std::sqrt(std::max(1.0, terms)));
    for (const Tensor* sums : {&out, &dq, &dk, &dv}) {
      const double halves = narrow && (sums == &dq || sums == &dk) ? 2 : 1;
      for (int64_t i = 0; i < sums->elements(); ++i) sums->data<double>()[i] *= 1 + halves * share;
    }
  }
  /// For results of this instruction set in this dtype.
  void allow_rounding_of(CpuIsa isa, DType dtype) {
    if (rounds_attention_factors(isa, dtype)) allow_rounded_factors(dtype);
  }

  static Tensor delta(const AttentionData& x) {
    const Tensor sums = host_tensor(DType::f64, x.delta.shape());
    for (int64_t t = 0; t < x.out.dim(0); ++t) {
      for (int64_t n = 0; n < x.out.dim(1); ++n) {
        for (int64_t i = 0; i < x.out.dim(2); ++i) {
          const int64_t at = (t * x.out.dim(1) + n) * x.out.dim(2) + i;
          sums.data<double>()[n * x.out.dim(0) + t] +=
              std::abs(element(x.out, at) * element(x.d_out, at));
        }
      }
    }
    return sums;
  }
};

}  // namespace viaduct::test
