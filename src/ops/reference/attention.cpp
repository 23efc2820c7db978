#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/reference/attention_queries.h"
#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double* head(const Tensor& x, int64_t token, int64_t n) {
  return x.data<double>() + token * x.stride(0) + n * x.stride(1);
}

double dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/// Where the bias of key j stands in its table, and its gradient in that of it.
int64_t bias_at(const AttentionProblem& problem, const AttentionQuery& query, int64_t j) {
  return relative_bucket(problem.relative, j - query.place) * problem.bias.dim(1) + query.head;
}

/// The score of key j, after the cap and with its bias.
double score(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
             const AttentionQuery& query, int64_t j) {
  const double s = problem.scale * dot(head(q, query.token, query.head),
                                       head(k, query.key_token + j, query.kv_head), q.dim(2));
  if (problem.bias) return s + problem.bias.data<double>()[bias_at(problem, query, j)];
  return problem.softcap > 0 ? problem.softcap * std::tanh(s / problem.softcap) : s;
}

}  // namespace

void attention_forward(const AttentionForwardArgs& args) {
  const AttentionProblem& problem = args.problem;
  const int64_t width = args.v.dim(2), queries = args.q.dim(0);
  for_attention_queries(problem, args.q.dim(1), args.k.dim(1), [&](const AttentionQuery& query) {
    double* out = const_cast<double*>(head(args.out, query.token, query.head));
    double& lse = args.lse.data<double>()[query.head * queries + query.token];
    std::fill(out, out + width, 0.0);
    lse = -kInfinity;
    if (query.first >= query.last) return;
    double largest = -kInfinity, total = 0;
    for (int64_t j = query.first; j < query.last; ++j) {
      largest = std::max(largest, score(problem, args.q, args.k, query, j));
    }
    for (int64_t j = query.first; j < query.last; ++j) {
      const double p = std::exp(score(problem, args.q, args.k, query, j) - largest);
      total += p;
      const double* v = head(args.v, query.key_token + j, query.kv_head);
      for (int64_t i = 0; i < width; ++i) out[i] += p * attention_keep(problem, query, j) * v[i];
    }
    for (int64_t i = 0; i < width; ++i) out[i] /= total;
    lse = largest + std::log(total);
  });
}

void attention_delta(const AttentionDeltaArgs& args) {
  const int64_t queries = args.out.dim(0), heads = args.out.dim(1);
  for (int64_t t = 0; t < queries; ++t) {
    for (int64_t n = 0; n < heads; ++n) {
      args.delta.data<double>()[n * queries + t] =
          dot(head(args.out, t, n), head(args.d_out, t, n), args.out.dim(2));
    }
  }
}

void attention_backward(const AttentionBackwardArgs& args) {
  const AttentionProblem& problem = args.problem;
  const int64_t D = args.q.dim(2), width = args.v.dim(2), queries = args.q.dim(0);
  for_attention_queries(problem, args.q.dim(1), args.k.dim(1), [&](const AttentionQuery& query) {
    const double lse = args.lse.data<double>()[query.head * queries + query.token];
    if (lse == -kInfinity) return;
    const double delta = args.delta.data<double>()[query.head * queries + query.token];
    const double* q = head(args.q, query.token, query.head);
    const double* d_out = head(args.d_out, query.token, query.head);
    double* dq = const_cast<double*>(head(args.dq, query.token, query.head));
    for (int64_t j = query.first; j < query.last; ++j) {
      const int64_t key = query.key_token + j;
      const double* k = head(args.k, key, query.kv_head);
      double* dk = const_cast<double*>(head(args.dk, key, query.kv_head));
      double* dv = const_cast<double*>(head(args.dv, key, query.kv_head));
      const double s = score(problem, args.q, args.k, query, j);
      const double p = std::exp(s - lse), kept = attention_keep(problem, query, j);
      const double dp = kept * dot(d_out, head(args.v, key, query.kv_head), width);
      const double capped = problem.softcap > 0 ? s / problem.softcap : 0;
      const double d_score = p * (dp - delta) * (1 - capped * capped);
      const double ds = d_score * problem.scale;
      if (args.d_bias) args.d_bias.data<double>()[bias_at(problem, query, j)] += d_score;
      for (int64_t i = 0; i < width; ++i) dv[i] += p * kept * d_out[i];
      for (int64_t i = 0; i < D; ++i) {
        dq[i] += ds * k[i];
        dk[i] += ds * q[i];
      }
    }
  });
}

void attention_merge(const AttentionMergeArgs& args) {
  const int64_t queries = args.out.dim(0);
  for (int64_t t = 0; t < queries; ++t) {
    for (int64_t n = 0; n < args.out.dim(1); ++n) {
      double& lse = args.lse.data<double>()[n * queries + t];
      const double other = args.other_lse.data<double>()[n * queries + t];
      const double largest = std::max(lse, other);
      if (largest == -kInfinity) continue;
      const double a = std::exp(lse - largest), b = std::exp(other - largest);
      double* out = const_cast<double*>(head(args.out, t, n));
      const double* other_out = head(args.other_out, t, n);
      for (int64_t i = 0; i < args.out.dim(2); ++i) {
        out[i] = (out[i] * a + other_out[i] * b) / (a + b);
      }
      lse = largest + std::log(a + b);
    }
  }
}

}  // namespace viaduct::reference
