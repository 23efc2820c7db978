// Choice and launch on the cpu of the bias that balances a router's choice. A round reads the
// exponentials once: a token's factor follows from those of experts, and its share of the sums of
// experts from that.

#include <algorithm>
#include <cmath>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"
#include "ops/sinkhorn.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskLogits = 1 << 14;
// Of a logit: an exponential, and two products and sums a round. Logits of a router that is not far
// from balance take about this many rounds.
constexpr double kFlopsOfExponential = 15, kFlopsOfRound = 4, kExpectedRounds = 10;

int64_t rows_of_task(const Tensor& logits) {
  return std::max<int64_t>(1, kTaskLogits / std::max<int64_t>(1, logits.dim(1)));
}

int64_t tasks_of(const Tensor& logits) {
  const int64_t rows = rows_of_task(logits);
  return (logits.dim(0) + rows - 1) / rows;
}

/// Where the numbers of a launch lie in its workspace.
struct Places {
  double* factors;   // [E], of experts
  double* sums;      // [tasks, E], of each task's tokens
  float* exponents;  // [N, E], relative to the largest of a token
};

Places places_of(const Tensor& logits, void* workspace) {
  Places p{};
  p.factors = static_cast<double*>(workspace);
  p.sums = p.factors + logits.dim(1);
  p.exponents = reinterpret_cast<float*>(p.sums + tasks_of(logits) * logits.dim(1));
  return p;
}

void exponentials(const float* x, int64_t experts, float* p) {
  float largest = x[0];
  for (int64_t e = 1; e < experts; ++e) largest = std::max(largest, x[e]);
  for (int64_t e = 0; e < experts; ++e) p[e] = std::exp(x[e] - largest);
}

/// Adds to `sums` what a token of `tokens` contributes to the experts' sums.
void add_token(const float* p, const double* factors, int64_t experts, int64_t tokens,
               double* sums) {
  double sum = kSinkhornEpsilon;
  for (int64_t e = 0; e < experts; ++e) sum += factors[e] * static_cast<double>(p[e]);
  const double own = 1 / (static_cast<double>(tokens) * sum);
  for (int64_t e = 0; e < experts; ++e) sums[e] += own * static_cast<double>(p[e]);
}

/// New factors from the sums of all tasks; returns the mean change.
double next_factors(const Places& places, int64_t tasks, int64_t experts) {
  double change = 0;
  for (int64_t e = 0; e < experts; ++e) {
    double sum = kSinkhornEpsilon;
    for (int64_t task = 0; task < tasks; ++task) sum += places.sums[task * experts + e];
    const double next = 1 / (static_cast<double>(experts) * sum);
    change += std::abs(next - places.factors[e]) / static_cast<double>(experts);
    places.factors[e] = next;
  }
  return change;
}

void launch(OpContext& context, const Choice& choice, const SinkhornArgs& args, void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::sinkhorn_bias(args);
  const int64_t tokens = args.logits.dim(0), experts = args.logits.dim(1);
  const int64_t step = rows_of_task(args.logits), tasks = tasks_of(args.logits);
  const Places places = places_of(args.logits, workspace);
  const auto for_tasks = [&](const auto& f) {
    context.device.pool().run(tasks, [&](int64_t task, int) {
      f(task, task * step, std::min(tokens, (task + 1) * step));
    });
  };
  std::fill_n(places.factors, experts, 1.0);
  for_tasks([&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      exponentials(args.logits.data<float>() + t * experts, experts,
                   places.exponents + t * experts);
  });
  double change = tokens > 0 ? 1 : 0;
  for (int round = 0; round < kSinkhornRounds && change > kSinkhornTolerance; ++round) {
    for_tasks([&](int64_t task, int64_t begin, int64_t end) {
      double* const sums = places.sums + task * experts;
      std::fill_n(sums, experts, 0.0);
      for (int64_t t = begin; t < end; ++t)
        add_token(places.exponents + t * experts, places.factors, experts, tokens, sums);
    });
    change = next_factors(places, tasks, experts);
  }
  auto* bias = args.bias.data<float>();
  for (int64_t e = 0; e < experts; ++e) bias[e] = static_cast<float>(std::log(places.factors[e]));
}

Choice choose(const SinkhornArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("sinkhorn_bias", args.logits.dtype(), traits, "rows");
  add_flops(choice, args.logits.dtype(),
            (kFlopsOfExponential + kExpectedRounds * kFlopsOfRound) *
                static_cast<double>(args.logits.elements()));
  choice.cost.bytes_read = args.logits.bytes();
  choice.cost.bytes_written = args.bias.bytes();
  if (choice.variant != kReferenceKernel) {
    choice.workspace_bytes =
        (1 + tasks_of(args.logits)) * args.logits.dim(1) * static_cast<int64_t>(sizeof(double)) +
        args.logits.elements() * static_cast<int64_t>(sizeof(float));
  }
  return choice;
}

}  // namespace

void add_sinkhorn(OpTable& table, CpuIsa) {
  table.sinkhorn_bias = {choose, launch};
}

}  // namespace viaduct::cpu
