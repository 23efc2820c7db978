// Choice and launch of the relative position bias of a score matrix on the cpu. A row of scores
// reads a run of its head's vector (attention_bias.h): a distance grows by one from key to key.

#include <algorithm>

#include "ops/costs.h"
#include "ops/cpu/attention/attention_bias.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

/// Calls f(row, keys, place) for the rows of a head of a score matrix: `row` counts them over all
/// documents, `place` is where the query stands among its keys.
template <class F>
void for_rows(const AttentionProblem& problem, F&& f) {
  const auto *queries = problem.q_offsets.data<int32_t>(),
             *keys = problem.kv_offsets.data<int32_t>();
  const auto* diagonal = problem.diagonal ? problem.diagonal.data<int32_t>() : nullptr;
  for (int64_t d = 0; d < attention_documents(problem); ++d) {
    for (int64_t t = queries[d]; t < queries[d + 1]; ++t)
      f(t, keys[d + 1] - keys[d], t - queries[d] + (diagonal != nullptr ? diagonal[d] : 0));
  }
}

/// The keys of a row in three runs: up to `before` those so far before the query that they share a
/// bucket; up to `near` those with a distance each, key j's at j + shift of the vector; the others
/// are far behind.
struct Runs {
  int64_t before, near, shift;

  Runs(int64_t keys, int64_t place, int64_t most)
      : before(std::clamp<int64_t>(place - most, 0, keys)),
        near(std::clamp<int64_t>(place + most + 1, before, keys)),
        shift(most - place) {}
};

void check_keys(std::string_view op, const AttentionProblem& problem, const Tensor& matrix) {
  const auto* keys = problem.kv_offsets.data<int32_t>();
  check_attention_offsets(op, "q_offsets", problem.q_offsets, matrix.dim(1));
  check_attention_offsets(op, "kv_offsets", problem.kv_offsets, keys[attention_documents(problem)]);
  for (int64_t d = 0; d < attention_documents(problem); ++d) {
    VIADUCT_CHECK(ShapeError, keys[d + 1] - keys[d] <= matrix.dim(2),
                  "{}: matrix: expected rows for the {} keys of document {}, found {}", op,
                  keys[d + 1] - keys[d], d, describe(matrix));
  }
}

Choice choose_forward(const ScoreBiasArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("score_bias", args.matrix.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel)
    choice.workspace_bytes = args.matrix.dim(0) * bias_distances(args.relative) * 4;
  return choice;
}

void launch_forward(OpContext& context, const Choice& choice, const ScoreBiasArgs& args,
                    void* workspace) {
  check_keys("score_bias", args.problem, args.matrix);
  if (choice.variant == kReferenceKernel) return reference::score_bias(args);
  const int64_t heads = args.matrix.dim(0), rows = args.matrix.dim(1), width = args.matrix.dim(2);
  const int64_t most = args.relative.max_distance, count = bias_distances(args.relative);
  context.device.pool().run(heads, [&](int64_t n, int) {
    float* bias = static_cast<float*>(workspace) + n * count;
    bias_of_head(args.relative, args.table, n, bias);
    float* matrix = args.matrix.data<float>() + n * rows * width;
    for_rows(args.problem, [&](int64_t row, int64_t keys, int64_t place) {
      const Runs runs(keys, place, most);
      float* scores = matrix + row * width;
      for (int64_t j = 0; j < runs.before; ++j) scores[j] += bias[0];
      for (int64_t j = runs.before; j < runs.near; ++j) scores[j] += bias[j + runs.shift];
      for (int64_t j = runs.near; j < keys; ++j) scores[j] += bias[count - 1];
    });
  });
}

Choice choose_backward(const ScoreBiasBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("score_bias_backward", args.gradient.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel)
    choice.workspace_bytes = args.gradient.dim(0) * bias_distances(args.relative) * 8;
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const ScoreBiasBackwardArgs& args,
                     void* workspace) {
  check_keys("score_bias_backward", args.problem, args.gradient);
  if (choice.variant == kReferenceKernel) return reference::score_bias_backward(args);
  const int64_t heads = args.gradient.dim(0), rows = args.gradient.dim(1),
                width = args.gradient.dim(2);
  const int64_t most = args.relative.max_distance, count = bias_distances(args.relative);
  context.device.pool().run(heads, [&](int64_t n, int) {
    double* sums = static_cast<double*>(workspace) + n * count;
    std::fill_n(sums, count, 0.0);
    const float* matrix = args.gradient.data<float>() + n * rows * width;
    for_rows(args.problem, [&](int64_t row, int64_t keys, int64_t place) {
      const Runs runs(keys, place, most);
      const float* d = matrix + row * width;
      for (int64_t j = 0; j < runs.before; ++j) sums[0] += static_cast<double>(d[j]);
      for (int64_t j = runs.before; j < runs.near; ++j)
        sums[j + runs.shift] += static_cast<double>(d[j]);
      for (int64_t j = runs.near; j < keys; ++j) sums[count - 1] += static_cast<double>(d[j]);
    });
    add_bias_gradient(args.relative, sums, n, args.d_table);
  });
}

}  // namespace

void add_relative_bias(OpTable& table, CpuIsa) {
  table.score_bias = {choose_forward, launch_forward};
  table.score_bias_backward = {choose_backward, launch_backward};
}

}  // namespace viaduct::cpu
