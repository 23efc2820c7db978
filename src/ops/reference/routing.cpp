#include "ops/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/reference/reference.h"

namespace viaduct::reference {
namespace {

using Row = std::vector<double>;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double log_sum_exp(const Row& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

Row softmax(const Row& x) {
  const double shift = log_sum_exp(x);
  Row p(x.size());
  for (size_t e = 0; e < x.size(); ++e) p[e] = std::exp(x[e] - shift);
  return p;
}

/// Scores other than the softmax's: s of a logit, and s′ / s.
double score(ScoreFunction function, double x) {
  if (function == ScoreFunction::sigmoid) return sigmoid(x);
  return std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
}

double relative_slope(ScoreFunction function, double x) {
  if (function == ScoreFunction::sigmoid) return 1 - sigmoid(x);
  const double s = score(function, x);
  return x < -30 ? 0.5 : sigmoid(x) / (2 * s * s);
}

Row scores_of(ScoreFunction function, const Row& x) {
  Row s(x.size());
  for (size_t e = 0; e < x.size(); ++e) s[e] = score(function, x[e]);
  return s;
}

/// Whether the chosen scores are divided by their sum.
bool normalizes(const RoutingRule& rule) {
  return rule.topk > 1 && rule.normalize;
}

bool better(double a, double b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

/// Indices of `values`, the best first, of equal ones the first.
std::vector<size_t> ranked(const Row& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return better(values[a], values[b]); });
  return order;
}

/// The experts whose groups are allowed.
std::vector<bool> allowed(const RoutingRule& rule, const Row& scores) {
  std::vector<bool> may(scores.size(), true);
  if (rule.groups == 0) return may;
  const size_t groups = static_cast<size_t>(rule.groups), size = scores.size() / groups;
  const auto best = static_cast<size_t>(rule.best_of_group());
  Row of_group(groups, 0);
  for (size_t g = 0; g < groups; ++g) {
    const auto from = scores.begin() + static_cast<int64_t>(g * size);
    const Row own(from, from + static_cast<int64_t>(size));
    const std::vector<size_t> order = ranked(own);
    for (size_t i = 0; i < std::min(best, size); ++i) of_group[g] += own[order[i]];
  }
  const std::vector<size_t> order = ranked(of_group);
  may.assign(scores.size(), false);
  for (size_t i = 0; i < static_cast<size_t>(rule.group_topk); ++i)
    std::fill_n(may.begin() + static_cast<int64_t>(order[i] * size), size, true);
  return may;
}

/// What a choice by probabilities compares: a row with a NaN, whose probabilities are all NaN, is
/// compared by its logits, so that the NaN is chosen.
Row choice_softmax(const Row& logits) {
  const bool whole = std::ranges::none_of(logits, [](double x) { return std::isnan(x); });
  return whole ? softmax(logits) : logits;
}

Row row_of(const Tensor& logits, int64_t t) {
  const double* begin = logits.data<double>() + t * logits.dim(1);
  return {begin, begin + logits.dim(1)};
}

/// What the balancing loss sums, of a token.
Row balanced(const RoutingRule& rule, const Row& logits) {
  if (rule.score == ScoreFunction::softmax) return softmax(logits);
  Row s = scores_of(rule.score, logits);
  const double sum = std::accumulate(s.begin(), s.end(), 1e-20);
  for (double& value : s) value /= sum;
  return s;
}

/// The gradient of Σ_e g_e · balanced_e.
Row balanced_backward(const RoutingRule& rule, const Row& logits, const Row& g) {
  const Row p = balanced(rule, logits);
  double mean = 0;
  for (size_t e = 0; e < p.size(); ++e) mean += g[e] * p[e];
  Row d(p.size());
  for (size_t e = 0; e < p.size(); ++e) {
    const double slope =
        rule.score == ScoreFunction::softmax ? 1 : relative_slope(rule.score, logits[e]);
    d[e] = p[e] * slope * (g[e] - mean);
  }
  return d;
}

/// The experts that choice j of a token is compared with where the rule has a margin, itself
/// included: only a quotient above the margin leaves one out, and a NaN is none.
std::vector<size_t> near_choice(const RoutingRule& rule, const Row& logits, const int32_t* choice,
                                size_t j) {
  std::vector<size_t> near;
  const double m = logits[static_cast<size_t>(choice[j])];
  for (size_t e = 0; e < logits.size(); ++e) {
    const bool before = std::find(choice, choice + j, static_cast<int32_t>(e)) != choice + j;
    const double x = logits[e];
    if (!before && !((m - x) / std::max(std::abs(x), m) > rule.margin)) near.push_back(e);
  }
  return near;
}

/// Their softmax, 0 for all others.
Row near_softmax(const RoutingRule& rule, const Row& logits, const int32_t* choice, size_t j) {
  const std::vector<size_t> near = near_choice(rule, logits, choice, j);
  Row x, out(logits.size(), 0);
  for (const size_t e : near) x.push_back(logits[e]);
  const Row q = softmax(x);
  for (size_t i = 0; i < near.size(); ++i) out[near[i]] = q[i];
  return out;
}

Row near_backward_row(const RoutingRule& rule, const Row& logits, const int32_t* choice,
                      const double* d) {
  Row out(logits.size(), 0);
  for (size_t j = 0; j < static_cast<size_t>(rule.topk); ++j) {
    const Row q = near_softmax(rule, logits, choice, j);
    const auto own = static_cast<size_t>(choice[j]);
    const double g = rule.scaling * d[j] * q[own];
    for (size_t e = 0; e < q.size(); ++e) out[e] -= g * q[e];
    out[own] += g;
  }
  return out;
}

/// The gradient of Σ_j d[j] · probability j.
Row route_backward_row(const RoutingRule& rule, const Row& logits, const int32_t* choice,
                       const double* d) {
  if (rule.margin > 0) return near_backward_row(rule, logits, choice, d);
  Row g(logits.size(), 0), out(logits.size(), 0);
  const auto k = static_cast<size_t>(rule.topk);
  if (rule.score == ScoreFunction::softmax && rule.pre_softmax) {
    for (size_t j = 0; j < k; ++j) g[static_cast<size_t>(choice[j])] = rule.scaling * d[j];
    return balanced_backward(rule, logits, g);
  }
  Row x(k), p(k);
  for (size_t j = 0; j < k; ++j) x[j] = logits[static_cast<size_t>(choice[j])];
  double sum = 1, mean = 0;
  if (rule.score == ScoreFunction::softmax) {
    p = softmax(x);
  } else {
    p = scores_of(rule.score, x);
    if (normalizes(rule)) sum = std::accumulate(p.begin(), p.end(), 1e-20);
    for (double& value : p) value /= sum;
  }
  if (rule.score == ScoreFunction::softmax || normalizes(rule))
    for (size_t j = 0; j < k; ++j) mean += rule.scaling * d[j] * p[j];
  for (size_t j = 0; j < k; ++j) {
    const double slope =
        rule.score == ScoreFunction::softmax ? 1 : relative_slope(rule.score, x[j]);
    out[static_cast<size_t>(choice[j])] = p[j] * slope * (rule.scaling * d[j] - mean);
  }
  return out;
}

/// The document of a token.
int64_t document_of(const Tensor& documents, int64_t token) {
  const auto* first = documents.data<int32_t>();
  return std::upper_bound(first, first + documents.dim(0), token) - first - 1;
}

bool is_padding(const Tensor& token_index, int64_t t) {
  return token_index && token_index.data<int64_t>()[t] < 0;
}

/// What the balancing loss multiplies a token's probabilities by: n_e · E / (k · N).
Row balance_of(const RoutingRule& rule, const Tensor& counts, int64_t tokens,
               const Tensor& documents, int64_t token, int64_t experts) {
  const int64_t row = documents ? document_of(documents, token) : 0;
  const auto* n = counts.data<int64_t>() + row * experts;
  const int64_t choices =
      documents || tokens == 0 ? std::accumulate(n, n + experts, int64_t{0}) : rule.topk * tokens;
  Row factors(static_cast<size_t>(experts));
  for (size_t e = 0; e < factors.size(); ++e) {
    factors[e] = static_cast<double>(n[e]) * static_cast<double>(experts) /
                 static_cast<double>(std::max<int64_t>(1, choices));
  }
  return factors;
}

}  // namespace

void route(const RouteArgs& args) {
  const RoutingRule& rule = args.rule;
  const auto k = static_cast<size_t>(rule.topk);
  for (int64_t t = 0; t < args.logits.dim(0); ++t) {
    const Row logits = row_of(args.logits, t);
    const bool softmaxes = rule.score == ScoreFunction::softmax;
    Row scores = rule.choose_probabilities         ? choice_softmax(logits)
                 : softmaxes || rule.choose_logits ? logits
                                                   : scores_of(rule.score, logits);
    if (args.bias)
      for (size_t e = 0; e < scores.size(); ++e) scores[e] += args.bias.data<double>()[e];
    const std::vector<bool> may =
        allowed(rule, softmaxes && rule.pre_softmax ? softmax(scores) : scores);
    std::vector<size_t> chosen;
    for (size_t e : ranked(scores))
      if (may[e] && chosen.size() < k) chosen.push_back(e);
    Row x(k), p;
    const std::vector<int32_t> choice(chosen.begin(), chosen.end());
    for (size_t j = 0; j < k; ++j) x[j] = logits[chosen[j]];
    if (rule.margin > 0) {
      for (size_t j = 0; j < k; ++j)
        p.push_back(near_softmax(rule, logits, choice.data(), j)[chosen[j]]);
    } else if (!softmaxes) {
      p = scores_of(rule.score, x);
      const double sum = normalizes(rule) ? std::accumulate(p.begin(), p.end(), 1e-20) : 1;
      for (double& value : p) value /= sum;
    } else if (rule.pre_softmax) {
      const Row all = softmax(logits);
      for (size_t e : chosen) p.push_back(all[e]);
    } else {
      p = softmax(x);
    }
    for (size_t j = 0; j < k; ++j) {
      args.probabilities.data<double>()[t * rule.topk + static_cast<int64_t>(j)] =
          rule.scaling * p[j];
      args.choice.data<int32_t>()[t * rule.topk + static_cast<int64_t>(j)] = choice[j];
    }
  }
}

void route_backward(const RouteBackwardArgs& args) {
  const RoutingRule& rule = args.rule;
  const RouterLossTerms& losses = args.losses;
  const int64_t experts = args.logits.dim(1);
  for (int64_t t = 0; t < args.logits.dim(0); ++t) {
    const Row logits = row_of(args.logits, t);
    Row d = route_backward_row(rule, logits, args.choice.data<int32_t>() + t * rule.topk,
                               args.d_probabilities.data<double>() + t * rule.topk);
    const bool scored = !is_padding(losses.token_index, t);
    if (scored && losses.balance != 0) {
      const double factor = losses.balance * *losses.loss_scale.data<double>();
      Row g = balance_of(rule, losses.counts, losses.tokens, losses.documents,
                         losses.first_token + t, experts);
      for (double& value : g) value *= factor;
      const Row more = balanced_backward(rule, logits, g);
      for (size_t e = 0; e < g.size(); ++e) d[e] += more[e];
    }
    if (scored && losses.z != 0) {
      const double factor = 2 * losses.z * *losses.loss_scale.data<double>() * log_sum_exp(logits);
      const Row p = softmax(logits);
      for (size_t e = 0; e < p.size(); ++e) d[e] += factor * p[e];
    }
    std::copy(d.begin(), d.end(), args.d_logits.data<double>() + t * experts);
  }
}

void router_loss(const RouterLossArgs& args) {
  double* const out = args.out.data<double>();
  for (int64_t t = 0; t < args.logits.dim(0); ++t) {
    if (is_padding(args.token_index, t)) continue;
    const Row logits = row_of(args.logits, t), p = balanced(args.rule, logits);
    if (args.counts) {
      const Row factor = balance_of(args.rule, args.counts, args.tokens, args.documents,
                                    args.first_token + t, args.logits.dim(1));
      for (size_t e = 0; e < p.size(); ++e) out[0] += factor[e] * p[e];
    }
    const double shift = log_sum_exp(logits);
    out[1] += shift * shift;
    for (const double value : p) out[2] -= value > 0 ? value * std::log(value) : 0;
  }
}

void count_choices(const CountChoicesArgs& args) {
  const int64_t experts = args.counts.dim(args.documents ? 1 : 0), k = args.choice.dim(1);
  auto* const counts = args.counts.data<int64_t>();
  if (args.mode == WriteMode::assign) std::fill_n(counts, args.counts.elements(), int64_t{0});
  for (int64_t i = 0; i < args.choice.elements(); ++i) {
    const int32_t expert = args.choice.data<int32_t>()[i];
    if (expert < 0 || is_padding(args.token_index, i / k)) continue;
    const int64_t row = args.documents ? document_of(args.documents, args.first_token + i / k) : 0;
    ++counts[row * experts + expert];
  }
}

}  // namespace viaduct::reference
