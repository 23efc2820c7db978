// Choice and launch of the router's ops on the cpu. A token's row is short (8 to 256 experts): rows
// are shared among the threads, and a row is plain FP32 arithmetic.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"
#include "ops/routing.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskLogits = 1 << 14;
// Of a logit: exponential, comparison, product.
constexpr double kFlopsOfLogit = 20;

int64_t rows_of_task(const Tensor& logits) {
  return std::max<int64_t>(1, kTaskLogits / std::max<int64_t>(1, logits.dim(1)));
}

int64_t tasks_of(const Tensor& logits) {
  const int64_t rows = rows_of_task(logits);
  return (logits.dim(0) + rows - 1) / rows;
}

/// Calls row(t, task) for all tokens on the pool.
template <class Row>
void for_tokens(OpContext& context, const Tensor& logits, const Row& row) {
  const int64_t step = rows_of_task(logits);
  context.device.pool().run(tasks_of(logits), [&](int64_t task, int) {
    const int64_t end = std::min(logits.dim(0), (task + 1) * step);
    for (int64_t t = task * step; t < end; ++t) row(t, task);
  });
}

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

/// Scores other than the softmax's: s of a logit, and s′ / s.
float score(ScoreFunction function, float x) {
  if (function == ScoreFunction::sigmoid) return sigmoid(x);
  return std::sqrt(std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))));
}

float relative_slope(ScoreFunction function, float x) {
  if (function == ScoreFunction::sigmoid) return 1 - sigmoid(x);
  const float s = score(function, x);
  return x < -15 ? 0.5f : sigmoid(x) / (2 * s * s);
}

/// Whether the chosen scores are divided by their sum.
bool normalizes(const RoutingRule& rule) {
  return rule.topk > 1 && rule.normalize;
}

float log_sum_exp(const float* x, int64_t n) {
  float largest = x[0];
  for (int64_t e = 1; e < n; ++e) largest = std::max(largest, x[e]);
  float sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += std::exp(x[e] - largest);
  return largest + std::log(sum);
}

bool better(float a, float b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

/// Of the chosen logits: with a bias the first choice need not have it.
float largest_of(const float* logits, const int32_t* chosen, int64_t k) {
  float largest = logits[chosen[0]];
  for (int64_t j = 1; j < k; ++j) largest = std::max(largest, logits[chosen[j]]);
  return largest;
}

/// The `k` best of n values in order, of equal ones the first; `may(i)`: whether it can be chosen.
template <class Value, class May>
void best_of(int64_t n, int64_t k, const Value& value, const May& may, int32_t* chosen) {
  int64_t found = 0;
  for (int64_t e = 0; e < n; ++e) {
    if (!may(e)) continue;
    int64_t place = found;
    while (place > 0 && better(value(e), value(chosen[place - 1]))) --place;
    if (place >= k) continue;
    found = std::min(found + 1, k);
    for (int64_t i = found - 1; i > place; --i) chosen[i] = chosen[i - 1];
    chosen[place] = static_cast<int32_t>(e);
  }
}

/// The groups of a token's experts that are allowed, at most kMostChosenExperts of them.
template <class Value>
int64_t choose_groups(const RoutingRule& rule, int64_t experts, const Value& value,
                      int32_t* allowed) {
  const int64_t size = experts / rule.groups;
  const int64_t best = std::min(size, rule.best_of_group());
  const auto score = [&](int64_t group) {
    std::array<int32_t, kMostChosenExperts> own;
    best_of(
        size, best, [&](int64_t i) { return value(group * size + i); },
        [](int64_t) { return true; }, own.data());
    float sum = 0;
    for (int64_t i = 0; i < best; ++i) sum += value(group * size + own[static_cast<size_t>(i)]);
    return sum;
  };
  best_of(
      rule.groups, rule.group_topk, score, [](int64_t) { return true; }, allowed);
  return rule.group_topk;
}

void choose_experts(const RoutingRule& rule, const float* logits, const float* bias,
                    int64_t experts, int32_t* chosen) {
  const float shift = rule.choose_probabilities ? log_sum_exp(logits, experts) : 0;
  // Of a row with a NaN all probabilities are NaN: its logits are compared.
  const bool by_probability = rule.choose_probabilities && !std::isnan(shift);
  const auto value = [&](int64_t e) {
    const float own = by_probability ? std::exp(logits[e] - shift)
                      : rule.score == ScoreFunction::softmax || rule.choose_logits
                          ? logits[e]
                          : score(rule.score, logits[e]);
    return bias != nullptr ? own + bias[e] : own;
  };
  if (rule.groups == 0)
    return best_of(
        experts, rule.topk, value, [](int64_t) { return true; }, chosen);
  std::array<int32_t, kMostChosenExperts> groups;
  int64_t count = 0;
  if (rule.score == ScoreFunction::softmax && rule.pre_softmax) {
    float largest = value(0);
    for (int64_t e = 1; e < experts; ++e) largest = std::max(largest, value(e));
    count = choose_groups(
        rule, experts, [&](int64_t e) { return std::exp(value(e) - largest); }, groups.data());
  } else {
    count = choose_groups(rule, experts, value, groups.data());
  }
  const int64_t size = experts / rule.groups;
  const auto may = [&](int64_t e) {
    return std::find(groups.data(), groups.data() + count, e / size) != groups.data() + count;
  };
  best_of(experts, rule.topk, value, may, chosen);
}

/// Calls visit(e, exp(x_e − m)) for the experts that choice j of a token, with the logit m, is
/// compared with where the rule has a margin, itself included; returns the sum of these.
template <class Visit>
float for_near(const RoutingRule& rule, const float* logits, int64_t experts, const int32_t* chosen,
               int64_t j, const Visit& visit) {
  const float m = logits[chosen[j]], margin = static_cast<float>(rule.margin);
  float sum = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const float x = logits[e];
    if ((m - x) / std::max(std::abs(x), m) > margin) continue;
    if (std::find(chosen, chosen + j, static_cast<int32_t>(e)) != chosen + j) continue;
    const float part = std::exp(x - m);
    sum += part;
    visit(e, part);
  }
  return sum;
}

/// The gradient through the probabilities of a rule with a margin.
void near_backward(const RoutingRule& rule, const float* logits, const int32_t* chosen,
                   const float* d, int64_t experts, float* out) {
  std::fill_n(out, experts, 0.0f);
  for (int64_t j = 0; j < rule.topk; ++j) {
    const float p = 1 / for_near(rule, logits, experts, chosen, j, [](int64_t, float) {});
    const float g = static_cast<float>(rule.scaling) * d[j] * p;
    for_near(rule, logits, experts, chosen, j,
             [&](int64_t e, float part) { out[e] -= g * p * part; });
    out[chosen[j]] += g;
  }
}

void route_row(const RouteArgs& args, int64_t t) {
  const RoutingRule& rule = args.rule;
  const int64_t experts = args.logits.dim(1), k = rule.topk;
  const float* logits = args.logits.data<float>() + t * experts;
  float* p = args.probabilities.data<float>() + t * k;
  int32_t* chosen = args.choice.data<int32_t>() + t * k;
  choose_experts(rule, logits, args.bias ? args.bias.data<float>() : nullptr, experts, chosen);
  float sum = 0;
  if (rule.margin > 0) {
    for (int64_t j = 0; j < k; ++j)
      p[j] = 1 / for_near(rule, logits, experts, chosen, j, [](int64_t, float) {});
    sum = 1;
  } else if (rule.score != ScoreFunction::softmax) {
    for (int64_t j = 0; j < k; ++j) sum += p[j] = score(rule.score, logits[chosen[j]]);
    sum = normalizes(rule) ? sum + 1e-20f : 1;
  } else if (rule.pre_softmax) {
    const float shift = log_sum_exp(logits, experts);
    for (int64_t j = 0; j < k; ++j) p[j] = std::exp(logits[chosen[j]] - shift);
    sum = 1;
  } else {
    const float shift = largest_of(logits, chosen, k);
    for (int64_t j = 0; j < k; ++j) sum += p[j] = std::exp(logits[chosen[j]] - shift);
  }
  for (int64_t j = 0; j < k; ++j) p[j] *= static_cast<float>(rule.scaling) / sum;
}

/// balanced(e), the probability that the balancing loss sums, and its slope beside the softmax's.
class Balanced {
 public:
  Balanced(const RoutingRule& rule, const float* logits, int64_t experts)
      : experts_(experts),
        logits_(logits),
        score_(rule.score),
        softmax_(rule.score == ScoreFunction::softmax) {
    if (softmax_) {
      shift_ = log_sum_exp(logits, experts);
    } else {
      shift_ = 1e-20f;
      for (int64_t e = 0; e < experts; ++e) shift_ += score(score_, logits[e]);
    }
  }
  float value(int64_t e) const {
    return softmax_ ? std::exp(logits_[e] - shift_) : score(score_, logits_[e]) / shift_;
  }
  float slope(int64_t e) const { return softmax_ ? 1 : relative_slope(score_, logits_[e]); }
  /// −p · log p of p = value(e), which a softmax knows without a logarithm.
  double entropy(int64_t e) const {
    const auto p = static_cast<double>(value(e));
    if (!(p > 0)) return 0;
    return softmax_ ? p * static_cast<double>(shift_ - logits_[e]) : -p * std::log(p);
  }
  /// Of the logits.
  float log_sum() const { return softmax_ ? shift_ : log_sum_exp(logits_, experts_); }

 private:
  int64_t experts_;
  const float* logits_;
  ScoreFunction score_;
  bool softmax_;
  float shift_;
};

/// out[e] (= or +=) the gradient of Σ g(e) · balanced(e).
template <class G>
void balanced_backward(const Balanced& balanced, int64_t experts, const G& g, bool add,
                       float* out) {
  float mean = 0;
  for (int64_t e = 0; e < experts; ++e) mean += g(e) * balanced.value(e);
  for (int64_t e = 0; e < experts; ++e) {
    const float d = balanced.value(e) * balanced.slope(e) * (g(e) - mean);
    out[e] = add ? out[e] + d : d;
  }
}

/// The gradient through only the probabilities of the chosen experts.
void chosen_backward(const RoutingRule& rule, const float* logits, const int32_t* chosen,
                     const float* d, int64_t experts, float* out) {
  const bool softmax = rule.score == ScoreFunction::softmax;
  const int64_t k = rule.topk;
  const float scaling = static_cast<float>(rule.scaling);
  std::array<float, kMostChosenExperts> p;
  const bool shared = softmax || normalizes(rule);  // probabilities are parts of a whole
  float sum = softmax || k == 1 ? 0 : 1e-20f, mean = 0;
  const float shift = softmax ? largest_of(logits, chosen, k) : 0;
  for (int64_t j = 0; j < k; ++j) {
    const float x = logits[chosen[j]];
    sum += p[static_cast<size_t>(j)] = softmax ? std::exp(x - shift) : score(rule.score, x);
  }
  for (int64_t j = 0; j < k; ++j) {
    float& own = p[static_cast<size_t>(j)];
    if (shared) own /= sum, mean += scaling * d[j] * own;
  }
  std::fill_n(out, experts, 0.0f);
  for (int64_t j = 0; j < k; ++j) {
    const float slope = softmax ? 1 : relative_slope(rule.score, logits[chosen[j]]);
    out[chosen[j]] = p[static_cast<size_t>(j)] * slope * (scaling * d[j] - mean);
  }
}

/// The document of a token.
int64_t document_of(const Tensor& documents, int64_t token) {
  const auto* first = documents.data<int32_t>();
  return std::upper_bound(first, first + documents.dim(0), token) - first - 1;
}

bool is_padding(const Tensor& token_index, int64_t t) {
  return token_index && token_index.data<int64_t>()[t] < 0;
}

/// What the balancing loss knows of a token: n_e, and E / (k · N).
struct BalanceOfToken {
  const int64_t* counts = nullptr;
  double factor = 0;
};

BalanceOfToken balance_of(const RoutingRule& rule, const Tensor& counts, int64_t tokens,
                          const Tensor& documents, int64_t token, int64_t experts) {
  const auto* n = counts.data<int64_t>();
  int64_t choices = rule.topk * tokens;
  if (documents) n += document_of(documents, token) * experts;
  if (documents || tokens == 0)
    choices = std::max<int64_t>(1, std::accumulate(n, n + experts, int64_t{0}));
  return {n, static_cast<double>(experts) / static_cast<double>(choices)};
}

void backward_row(const RouteBackwardArgs& args, int64_t t, float* row) {
  const RoutingRule& rule = args.rule;
  const RouterLossTerms& losses = args.losses;
  const int64_t experts = args.logits.dim(1), k = rule.topk;
  const float* logits = args.logits.data<float>() + t * experts;
  const int32_t* chosen = args.choice.data<int32_t>() + t * k;
  const float* d = args.d_probabilities.data<float>() + t * k;
  if (rule.margin > 0) {
    near_backward(rule, logits, chosen, d, experts, row);
  } else if (rule.score == ScoreFunction::softmax && rule.pre_softmax) {
    const auto g = [&](int64_t e) {
      const int32_t* found = std::find(chosen, chosen + k, static_cast<int32_t>(e));
      return found == chosen + k ? 0.0f : static_cast<float>(rule.scaling) * d[found - chosen];
    };
    balanced_backward(Balanced(rule, logits, experts), experts, g, false, row);
  } else {
    chosen_backward(rule, logits, chosen, d, experts, row);
  }
  if (is_padding(losses.token_index, t)) return;
  if (losses.balance != 0) {
    const BalanceOfToken balance = balance_of(rule, losses.counts, losses.tokens, losses.documents,
                                              losses.first_token + t, experts);
    const double factor = losses.balance * *losses.loss_scale.data<double>() * balance.factor;
    const auto g = [&](int64_t e) {
      return static_cast<float>(factor * static_cast<double>(balance.counts[e]));
    };
    balanced_backward(Balanced(rule, logits, experts), experts, g, true, row);
  }
  if (losses.z != 0) {
    const float shift = log_sum_exp(logits, experts);
    const float factor =
        static_cast<float>(2 * losses.z * *losses.loss_scale.data<double>()) * shift;
    for (int64_t e = 0; e < experts; ++e) row[e] += factor * std::exp(logits[e] - shift);
  }
}

void launch_route(OpContext& context, const Choice& choice, const RouteArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::route(args);
  for_tokens(context, args.logits, [&](int64_t t, int64_t) { route_row(args, t); });
}

void launch_route_backward(OpContext& context, const Choice& choice, const RouteBackwardArgs& args,
                           void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::route_backward(args);
  const int64_t experts = args.logits.dim(1);
  for_tokens(context, args.logits, [&](int64_t t, int64_t task) {
    float* row = static_cast<float*>(workspace) + task * experts;  // d_logits may be logits
    backward_row(args, t, row);
    std::copy_n(row, experts, args.d_logits.data<float>() + t * experts);
  });
}

void launch_router_loss(OpContext& context, const Choice& choice, const RouterLossArgs& args,
                        void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::router_loss(args);
  const int64_t experts = args.logits.dim(1), tasks = tasks_of(args.logits);
  auto* const sums = static_cast<double*>(workspace);  // [tasks, 3]
  std::fill_n(sums, 3 * tasks, 0.0);
  for_tokens(context, args.logits, [&](int64_t t, int64_t task) {
    if (is_padding(args.token_index, t)) return;
    const float* logits = args.logits.data<float>() + t * experts;
    double* const own = sums + 3 * task;
    const Balanced balanced(args.rule, logits, experts);
    if (args.counts) {
      const BalanceOfToken balance = balance_of(args.rule, args.counts, args.tokens, args.documents,
                                                args.first_token + t, experts);
      for (int64_t e = 0; e < experts; ++e) {
        own[0] += static_cast<double>(balanced.value(e)) * balance.factor *
                  static_cast<double>(balance.counts[e]);
      }
    }
    const auto shift = static_cast<double>(balanced.log_sum());
    own[1] += shift * shift;
    for (int64_t e = 0; e < experts; ++e) own[2] += balanced.entropy(e);
  });
  double* out = args.out.data<double>();
  for (int64_t task = 0; task < tasks; ++task)
    for (int64_t i = 0; i < 3; ++i) out[i] += sums[3 * task + i];
}

void launch_count(OpContext&, const Choice&, const CountChoicesArgs& args, void*) {
  reference::count_choices(args);  // integers: a few operations a token
}

Choice choose_rows(std::string_view op, const Tensor& logits, const Traits& traits) {
  Choice choice = choose_by_dtype(op, logits.dtype(), traits, "rows");
  add_flops(choice, logits.dtype(), kFlopsOfLogit * static_cast<double>(logits.elements()));
  choice.cost.bytes_read = logits.bytes();
  return choice;
}

Choice choose_route(const RouteArgs& args, const Traits& traits) {
  Choice choice = choose_rows("route", args.logits, traits);
  choice.cost.bytes_read += bytes_of(args.bias);
  choice.cost.bytes_written = args.probabilities.bytes() + args.choice.bytes();
  return choice;
}

Choice choose_route_backward(const RouteBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_rows("route_backward", args.logits, traits);
  choice.cost.bytes_read += args.d_probabilities.bytes() + args.choice.bytes() +
                            bytes_of(args.losses.counts) + bytes_of(args.losses.token_index);
  choice.cost.bytes_written = args.d_logits.bytes();
  if (choice.variant != kReferenceKernel)
    choice.workspace_bytes =
        tasks_of(args.logits) * args.logits.dim(1) * static_cast<int64_t>(sizeof(float));
  return choice;
}

Choice choose_router_loss(const RouterLossArgs& args, const Traits& traits) {
  Choice choice = choose_rows("router_loss", args.logits, traits);
  choice.cost.bytes_read += bytes_of(args.token_index);
  choice.cost.bytes_written = args.out.bytes();
  if (choice.variant != kReferenceKernel)
    choice.workspace_bytes = 3 * tasks_of(args.logits) * static_cast<int64_t>(sizeof(double));
  return choice;
}

Choice choose_count(const CountChoicesArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "count";
  choice.cost.bytes_read =
      args.choice.bytes() + bytes_of(args.documents) + bytes_of(args.token_index);
  choice.cost.bytes_written = args.counts.bytes();
  return choice;
}

}  // namespace

void add_routing(OpTable& table, CpuIsa) {
  table.route = {choose_route, launch_route};
  table.route_backward = {choose_route_backward, launch_route_backward};
  table.router_loss = {choose_router_loss, launch_router_loss};
  table.count_choices = {choose_count, launch_count};
}

}  // namespace viaduct::cpu
