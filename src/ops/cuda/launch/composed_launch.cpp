// Launches of attention and losses composed of ops: the score matrix of unfused attention, and the
// steps of softmax cross entropy.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/score_bias.h"
#include "ops/cuda/kernels/score_matrix.h"
#include "ops/cuda/kernels/softmax_rows.h"
#include "ops/cuda/launch/attention_view.h"
#include "ops/table.h"

namespace viaduct::cuda {
namespace {

/// The problem of a matrix [N, Tq, L] with `keys` tokens and `kv_heads` of them.
AttentionProblemView matrix_problem(std::string_view op, const AttentionProblem& problem,
                                    const Tensor& matrix, int64_t keys, int64_t kv_heads) {
  AttentionProblemView view = document_view(op, problem, matrix.dim(1), keys);
  view.kv_heads = static_cast<int>(kv_heads);
  view.group = static_cast<int>(matrix.dim(0) / kv_heads);
  return view;
}

void launch_product(OpContext& context, const Choice& choice, const ScoreProductArgs& args, void*) {
  constexpr std::string_view op = "score_product";
  const ScoreForm form = args.form == ScoreProduct::scores   ? ScoreForm::scores
                         : args.form == ScoreProduct::values ? ScoreForm::values
                                                             : ScoreForm::keys;
  ScoreProductView view{
      matrix_problem(op, args.problem, args.matrix, args.keys.dim(0), args.keys.dim(1)),
      form,
      args.matrix.raw(),
      format_of(op, args.matrix.dtype()),
      args.matrix.dim(2),
      heads_of(args.queries),
      heads_of(args.keys),
      format_of(op, args.queries.dtype()),
      format_of(op, args.keys.dtype()),
      static_cast<int>(args.queries.dim(2)),
      args.mode == WriteMode::accumulate,
      is_wide(args.matrix.raw()) && args.matrix.dim(2) % 2 == 0};
  view.problem.wide = (form == ScoreForm::values || is_wide_heads(args.queries)) &&
                      (form == ScoreForm::keys || is_wide_heads(args.keys));
  choice.variant == kMatrixScores ? score_product_mma(view, stream_of(context))
                                  : score_product(view, stream_of(context));
}

void launch_score_rows(OpContext& context, const Choice&, const ScoreRowsArgs& args, void*) {
  constexpr std::string_view op = "score_rows";
  // Keys of all documents are not counted here: rows have those of their own document.
  const AttentionProblemView problem = matrix_problem(op, args.problem, args.x, 0, args.x.dim(0));
  const Tensor& out = args.out ? args.out : args.x;
  if (args.step == ScoreStep::dropout) {
    return score_dropout(
        {problem, args.x.raw(), out.raw(), format_of(op, args.x.dtype()), args.x.dim(2)},
        stream_of(context));
  }
  const ScoreParts parts = parts_of(args.step);
  ScoreRowsView view{problem,    args.x.data<float>(), args.x.dim(2), parts.scale,
                     parts.mask, parts.softmax,        args.known_lse};
  view.problem.lse = pointer_of<float>(args.lse);
  if (args.out) {
    view.narrow = args.out.raw();
    view.narrow_format = format_of(op, args.out.dtype());
  }
  if (!parts.backward) return score_softmax(view, stream_of(context));
  view.probabilities = args.probabilities.raw();
  view.probability_format = format_of(op, args.probabilities.dtype());
  view.delta = args.delta.data<float>();
  score_softmax_backward(view, stream_of(context));
}

/// The least distances of the buckets that have several, found by halving: buckets grow with the
/// distance.
BucketsView buckets_view(const RelativeBuckets& relative) {
  BucketsView view{};
  const int64_t own = buckets_of_direction(relative), exact = own / 2;
  view.own = static_cast<int>(own);
  view.exact = static_cast<int>(exact);
  view.both = relative.both_directions;
  for (int64_t number = exact + 1; number < own; ++number) {
    int64_t low = exact, high = relative.max_distance;  // has the bucket, or a later one
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (relative_bucket(relative, -middle) >= number) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    view.borders[number - exact - 1] = static_cast<int32_t>(low);
  }
  return view;
}

void launch_bias(OpContext& context, const Choice&, const ScoreBiasArgs& args, void*) {
  constexpr std::string_view op = "score_bias";
  score_bias({matrix_problem(op, args.problem, args.matrix, 0, args.matrix.dim(0)),
              buckets_view(args.relative), args.table.raw(), format_of(op, args.table.dtype()),
              args.matrix.data<float>(), args.matrix.dim(2)},
             stream_of(context));
}

void launch_bias_backward(OpContext& context, const Choice&, const ScoreBiasBackwardArgs& args,
                          void* workspace) {
  score_bias_backward(
      {matrix_problem("score_bias_backward", args.problem, args.gradient, 0, args.gradient.dim(0)),
       buckets_view(args.relative), args.gradient.data<float>(), args.gradient.dim(2),
       static_cast<double*>(workspace), parts_of(args.gradient.dim(1)), args.d_table.data<float>()},
      stream_of(context));
}

FloatRows float_rows(const Tensor& x) {
  return {x.data<float>(), x.stride(0)};
}

void launch_reduce_rows(OpContext& context, const Choice&, const ReduceRowsArgs& args, void*) {
  reduce_rows({float_rows(args.x), args.out.data<float>(), pointer_of<int32_t>(args.targets.ids),
               args.x.dim(0), args.columns, args.targets.first_column, args.value == RowValue::sum},
              stream_of(context));
}

static_assert(static_cast<int>(RowFormula::loss_backward) ==
              static_cast<int>(RowMap::loss_backward));

void launch_map_rows(OpContext& context, const Choice&, const MapRowsArgs& args, void*) {
  MappedRows view{static_cast<RowFormula>(args.map), float_rows(args.x), float_rows(args.out)};
  if (args.by) view.by = float_rows(args.by);
  view.cap = static_cast<float>(args.cap);
  view.targets = pointer_of<int32_t>(args.targets.ids);
  view.weight = pointer_of<float>(args.weight);
  view.factor = pointer_of<double>(args.factor);
  view.rows = args.x.dim(0), view.columns = args.columns, view.width = args.x.dim(1);
  view.first_column = args.targets.first_column;
  map_rows(view, stream_of(context));
}

}  // namespace

void add_composed_launches(OpTable& table) {
  table.score_product.launch = launch_product;
  table.score_rows.launch = launch_score_rows;
  table.score_bias.launch = launch_bias;
  table.score_bias_backward.launch = launch_bias_backward;
  table.reduce_rows.launch = launch_reduce_rows;
  table.map_rows.launch = launch_map_rows;
}

}  // namespace viaduct::cuda
