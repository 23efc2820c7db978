#include "ops/score_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/attention_queries.h"
#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double* row_of(const Tensor& matrix, const AttentionQuery& query) {
  return matrix.data<double>() + (query.head * matrix.dim(1) + query.token) * matrix.dim(2);
}

/// Scale, mask and softmax of a query; `at` is its place in lse.
void softmax_row(const ScoreRowsArgs& args, const ScoreParts& parts, const AttentionQuery& query,
                 int64_t at) {
  const AttentionProblem& problem = args.problem;
  double* scores = row_of(args.x, query);
  for (int64_t j = 0; j < query.keys; ++j) {
    if (parts.scale) {
      scores[j] *= problem.scale;
      if (problem.softcap > 0) scores[j] = problem.softcap * std::tanh(scores[j] / problem.softcap);
    }
    if (parts.mask && (j < query.first || j >= query.last)) scores[j] = -kInfinity;
  }
  if (!parts.softmax) return;
  double& lse = args.lse.data<double>()[at];
  if (!args.known_lse) {
    double largest = -kInfinity, total = 0;
    for (int64_t j = 0; j < query.keys; ++j) largest = std::max(largest, scores[j]);
    for (int64_t j = 0; j < query.keys && largest > -kInfinity; ++j)
      total += std::exp(scores[j] - largest);
    lse = total > 0 ? largest + std::log(total) : -kInfinity;
  }
  for (int64_t j = 0; j < query.keys; ++j)
    scores[j] = scores[j] == -kInfinity ? 0 : std::exp(scores[j] - lse);
}

void softmax_row_backward(const ScoreRowsArgs& args, const ScoreParts& parts,
                          const AttentionQuery& query, int64_t at) {
  const AttentionProblem& problem = args.problem;
  const double* p = row_of(args.probabilities, query);
  double* d = row_of(args.x, query);
  const double lse = args.lse.data<double>()[at], delta = args.delta.data<double>()[at];
  for (int64_t j = 0; j < query.keys; ++j) {
    if (parts.softmax) d[j] = p[j] * (d[j] - delta);
    if (!parts.scale) continue;
    // p was computed from the capped score.
    const double capped =
        problem.softcap > 0 && p[j] != 0 ? (std::log(p[j]) + lse) / problem.softcap : 0;
    d[j] *= problem.scale * (1 - capped * capped);
  }
}

}  // namespace

void score_product(const ScoreProductArgs& args) {
  const int64_t width = args.queries.dim(2);
  const auto at = [](const Tensor& x, int64_t token, int64_t n) {
    return x.data<double>() + token * x.stride(0) + n * x.stride(1);
  };
  for_attention_queries(args.problem, args.queries.dim(1), args.keys.dim(1),
                        [&](const AttentionQuery& query) {
                          double* scores = row_of(args.matrix, query);
                          double* row = at(args.queries, query.token, query.head);
                          if (args.form == ScoreProduct::values && args.mode == WriteMode::assign)
                            std::fill_n(row, width, 0.0);
                          for (int64_t j = 0; j < query.keys; ++j) {
                            double* key = at(args.keys, query.key_token + j, query.kv_head);
                            if (args.form == ScoreProduct::scores) scores[j] = 0;
                            for (int64_t i = 0; i < width; ++i) {
                              if (args.form == ScoreProduct::scores) scores[j] += row[i] * key[i];
                              if (args.form == ScoreProduct::values) row[i] += scores[j] * key[i];
                              if (args.form == ScoreProduct::keys) key[i] += scores[j] * row[i];
                            }
                          }
                        });
}

void score_rows(const ScoreRowsArgs& args) {
  const AttentionProblem& problem = args.problem;
  const ScoreParts parts = parts_of(args.step);
  for_attention_queries(problem, args.x.dim(0), 1, [&](const AttentionQuery& query) {
    const int64_t at = query.head * args.x.dim(1) + query.token;
    if (args.step == ScoreStep::dropout) {
      const double* from = row_of(args.x, query);
      double* to = row_of(args.out ? args.out : args.x, query);
      for (int64_t j = 0; j < query.keys; ++j) to[j] = from[j] * attention_keep(problem, query, j);
    } else if (parts.backward) {
      softmax_row_backward(args, parts, query, at);
    } else {
      softmax_row(args, parts, query, at);
    }
  });
}

}  // namespace viaduct::reference
