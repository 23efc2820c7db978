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

bool has(ScoreSteps steps, ScoreSteps step) {
  return steps == ScoreSteps::all || steps == step;
}

ScoreRowsView rows_view(std::string_view op, const AttentionProblem& problem, const Tensor& matrix,
                        ScoreSteps steps, const Tensor& lse) {
  // Keys of all documents are not counted here: rows have those of their own document.
  ScoreRowsView view{matrix_problem(op, problem, matrix, 0, matrix.dim(0)),
                     matrix.data<float>(),
                     matrix.dim(2),
                     has(steps, ScoreSteps::scale),
                     has(steps, ScoreSteps::mask),
                     has(steps, ScoreSteps::softmax)};
  view.problem.lse = pointer_of<float>(lse);
  return view;
}

void set_narrow(std::string_view op, const Tensor& narrow, ScoreRowsView& view) {
  if (!narrow) return;
  view.narrow = narrow.raw();
  view.narrow_format = format_of(op, narrow.dtype());
}

void launch_softmax(OpContext& context, const Choice&, const ScoreSoftmaxArgs& args, void*) {
  ScoreRowsView view = rows_view("score_softmax", args.problem, args.matrix, args.steps, args.lse);
  view.known_lse = args.known_lse;
  set_narrow("score_softmax", args.narrow, view);
  score_softmax(view, stream_of(context));
}

void launch_softmax_backward(OpContext& context, const Choice&,
                             const ScoreSoftmaxBackwardArgs& args, void*) {
  ScoreRowsView view =
      rows_view("score_softmax_backward", args.problem, args.gradient, args.steps, args.lse);
  view.probabilities = args.probabilities.raw();
  view.probability_format = format_of("score_softmax_backward", args.probabilities.dtype());
  set_narrow("score_softmax_backward", args.narrow, view);
  view.delta = args.delta.data<float>();
  score_softmax_backward(view, stream_of(context));
}

void launch_dropout(OpContext& context, const Choice&, const ScoreDropoutArgs& args, void*) {
  constexpr std::string_view op = "score_dropout";
  score_dropout({matrix_problem(op, args.problem, args.x, 0, args.x.dim(0)), args.x.raw(),
                 args.out.raw(), format_of(op, args.x.dtype()), args.x.dim(2)},
                stream_of(context));
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

void launch_soft_cap(OpContext& context, const Choice&, const SoftCapArgs& args, void*) {
  soft_cap({float_rows(args.x),
            {},
            float_rows(args.out),
            args.x.dim(0),
            args.x.dim(1),
            static_cast<float>(args.cap)},
           stream_of(context));
}
void launch_soft_cap_backward(OpContext& context, const Choice&, const SoftCapBackwardArgs& args,
                              void*) {
  soft_cap({float_rows(args.d_out), float_rows(args.z), float_rows(args.d_in), args.z.dim(0),
            args.z.dim(1), static_cast<float>(args.cap)},
           stream_of(context));
}

void launch_largest(OpContext& context, const Choice&, const RowLargestArgs& args, void*) {
  row_values({RowValue::largest, float_rows(args.x), args.out.data<float>(), nullptr, args.x.dim(0),
              args.columns, 0},
             stream_of(context));
}
void launch_sum(OpContext& context, const Choice&, const RowSumArgs& args, void*) {
  row_values({RowValue::sum, float_rows(args.x), args.out.data<float>(), nullptr, args.x.dim(0),
              args.columns, 0},
             stream_of(context));
}
void launch_pick(OpContext& context, const Choice&, const RowPickArgs& args, void*) {
  row_values({RowValue::pick, float_rows(args.x), args.out.data<float>(),
              args.targets.data<int32_t>(), args.x.dim(0), args.columns, args.first_column},
             stream_of(context));
}

void launch_exponential(OpContext& context, const Choice&, const RowExponentialArgs& args, void*) {
  rows_by_value({true, float_rows(args.x), float_rows(args.out), args.shift.data<float>(),
                 args.x.dim(0), args.columns, args.out.dim(1)},
                stream_of(context));
}
void launch_divide(OpContext& context, const Choice&, const RowDivideArgs& args, void*) {
  rows_by_value({false, float_rows(args.x), float_rows(args.out), args.divisor.data<float>(),
                 args.x.dim(0), args.x.dim(1), args.out.dim(1)},
                stream_of(context));
}

void launch_loss_backward(OpContext& context, const Choice&, const SoftmaxLossBackwardArgs& args,
                          void*) {
  softmax_loss_backward(
      {float_rows(args.probabilities), float_rows(args.out), args.targets.data<int32_t>(),
       args.weight.data<float>(), args.factor.data<double>(), args.out.dim(0), args.columns,
       args.out.dim(1), args.first_column},
      stream_of(context));
}

}  // namespace

void add_composed_launches(OpTable& table) {
  table.score_product.launch = launch_product;
  table.score_softmax.launch = launch_softmax;
  table.score_softmax_backward.launch = launch_softmax_backward;
  table.score_dropout.launch = launch_dropout;
  table.score_bias.launch = launch_bias;
  table.score_bias_backward.launch = launch_bias_backward;
  table.soft_cap.launch = launch_soft_cap;
  table.soft_cap_backward.launch = launch_soft_cap_backward;
  table.row_largest.launch = launch_largest;
  table.row_exponential.launch = launch_exponential;
  table.row_sum.launch = launch_sum;
  table.row_divide.launch = launch_divide;
  table.row_pick.launch = launch_pick;
  table.softmax_loss_backward.launch = launch_loss_backward;
}

}  // namespace viaduct::cuda
