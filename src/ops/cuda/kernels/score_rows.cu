// Operations on the rows of a score matrix: scale, mask, softmax, their gradients, and dropout.
// The single steps and all of them together do the same arithmetic: their bits are the same.

#include "ops/cuda/kernels/score_matrix.h"
#include "ops/cuda/kernels/score_row.cuh"

namespace viaduct::cuda {
namespace {

/// Element `at` of the result.
__device__ void write(const ScoreRowsView& args, int64_t at, float value) {
  if (args.narrow == nullptr) {
    args.matrix[at] = value;
  } else {
    const float values[1] = {value};
    store(args.narrow, args.narrow_format, at, values);
  }
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) score_softmax_kernel(ScoreRowsView args) {
  using Group = RowGroup<kThreads>;
  const AttentionProblemView& p = args.problem;
  ScoreRow row;
  if (!find_row(p, Group::row(), row)) return;
  const int64_t begin = row.at * args.row;
  const float inverse_cap = p.softcap > 0 ? 1.0f / p.softcap : 0.0f;
  // What the steps before the softmax make of a score. It is made again where it is needed, so that
  // the row is written once; after the first time it comes from a cache.
  const auto score = [&](int j) {
    float s = args.matrix[begin + j];
    if (args.scale) {
      s *= p.scale;
      if (p.softcap > 0) s = p.softcap * tanhf(s * inverse_cap);
    }
    return args.mask && (j < row.first || j >= row.end) ? -INFINITY : s;
  };
  if (!args.softmax) return for_keys<Group>(row, [&](int j) { write(args, begin + j, score(j)); });
  float lse = args.known_lse ? p.lse[row.at] : 0.0f;
  if (!args.known_lse) {
    float most = -INFINITY, total = 0;
    for_keys<Group>(row, [&](int j) { most = fmaxf(most, score(j)); });
    most = Group::join(most, LargestOf{});
    if (most != -INFINITY) for_keys<Group>(row, [&](int j) { total += expf(score(j) - most); });
    total = Group::join(total, SumOf{});
    lse = most == -INFINITY ? -INFINITY : most + logf(total);
    if (Group::thread() == 0) p.lse[row.at] = lse;
  }
  // A query without visible keys: e^(−inf − inf) = 0.
  const float base = lse == -INFINITY ? INFINITY : lse;
  for_keys<Group>(row, [&](int j) { write(args, begin + j, expf(score(j) - base)); });
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) score_softmax_backward_kernel(ScoreRowsView args) {
  using Group = RowGroup<kThreads>;
  const AttentionProblemView& p = args.problem;
  ScoreRow row;
  if (!find_row(p, Group::row(), row)) return;
  const int64_t begin = row.at * args.row;
  const auto probability_of = [&](int j) {
    return matrix_element(args.probabilities, args.probability_format, begin + j);
  };
  const float delta = args.delta[row.at], lse = p.lse[row.at];
  const bool capped = p.softcap > 0;
  for_keys<Group>(row, [&](int j) {
    float d = args.matrix[begin + j];
    if (args.softmax) d = probability_of(j) * (d - delta);
    if (args.scale && !capped) d *= p.scale;
    if (args.scale && capped) {
      // p was computed from the capped score.
      const float probability = probability_of(j);
      const float t = probability == 0 ? 0.0f : (logf(probability) + lse) / p.softcap;
      d *= p.scale * (1.0f - t * t);
    }
    write(args, begin + j, d);
  });
}

template <int kThreads>
__global__ void __launch_bounds__(kRowThreads) score_dropout_kernel(ScoreDropoutView args) {
  using Group = RowGroup<kThreads>;
  const AttentionProblemView& p = args.problem;
  ScoreRow row;
  if (!find_row(p, Group::row(), row)) return;
  const RowDraw draw{static_cast<uint64_t>(p.query_index[row.query]),
                     p.first_head + static_cast<uint32_t>(row.head)};
  const int64_t begin = row.at * args.row;
  for_keys<Group>(row, [&](int j) {
    const float dropped[1] = {matrix_element(args.x, args.format, begin + j) *
                              factor_of(p, row.block, draw, j)};
    store(args.out, args.format, begin + j, dropped);
  });
}

}  // namespace

void score_softmax(const ScoreRowsView& args, Stream stream) {
  for_matrix(args.problem, args.row, [&](auto threads, Grid grid) {
    launch("score_softmax", score_softmax_kernel<decltype(threads)::value>, grid, kRowThreads,
           stream, args);
  });
}

void score_softmax_backward(const ScoreRowsView& args, Stream stream) {
  for_matrix(args.problem, args.row, [&](auto threads, Grid grid) {
    launch("score_softmax_backward", score_softmax_backward_kernel<decltype(threads)::value>, grid,
           kRowThreads, stream, args);
  });
}

void score_dropout(const ScoreDropoutView& args, Stream stream) {
  for_matrix(args.problem, args.row, [&](auto threads, Grid grid) {
    launch("score_dropout", score_dropout_kernel<decltype(threads)::value>, grid, kRowThreads,
           stream, args);
  });
}

VIADUCT_KERNEL_FILE(score_rows)

}  // namespace viaduct::cuda
