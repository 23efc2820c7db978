// Norms and activations that make quantized operands or magnitudes of their results besides,
// compared with the same ops followed by ops of their own, in BF16.

#include "op_benchmark.h"
#include "ops/quantized_forms.h"

namespace viaduct {
namespace {

/// What is made: MXFP8 codes, codes with FP32 scales of 128 elements, the largest magnitude, and
/// that with the rotated matrix's.
enum class Made { mx, blocks, amax, both_amaxes };

FormsRequest request_of(Made made, const Shape& matrix) {
  FormsRequest request{DType::bf16, matrix};
  if (made == Made::amax) request.magnitudes = 1;
  if (made == Made::both_amaxes) request.magnitudes = 2;
  if (made == Made::mx || made == Made::blocks) {
    const Scaling scaling = made == Made::mx ? Scaling::mx : Scaling::blocks;
    request.operand = quantized_forms(GemmForm::forward, {scaling, DType::e4m3, DType::e4m3}).a;
  }
  return request;
}

/// The same of a finished matrix.
void make_apart(OpContext& context, const ProducedForms& forms, const Tensor& matrix) {
  if (forms.operand) convert_operand(context, {matrix, forms.operand});
  for (int64_t i = 0; forms.amax && i < forms.amax.dim(0); ++i)
    largest_magnitude(context, {matrix, forms.amax.slice(0, i, 1), i == 1});
}

template <class Args, class Op>
void run(benchmark::State& state, OpBench& bench, Args args, const Tensor& result, Made made,
         bool apart, const Op& op) {
  const ProducedForms forms =
      allocate_forms(bench.context, request_of(made, result.shape()), MemoryTag::activations);
  if (!apart) args.forms = forms;
  run_op(state, bench, [&] {
    op(bench.context, args);
    if (apart) make_apart(bench.context, forms, result);
  });
}

void norm(benchmark::State& state, Made made, bool apart) {
  OpBench bench;
  const int64_t T = state.range(0), H = state.range(1);
  NormForwardArgs args;
  args.x = bench.random(DType::bf16, {T, H}, 1);
  args.weight = bench.random(DType::bf16, {H}, 2, 1, 0.1);
  args.y = bench.empty(DType::bf16, {T, H});
  args.rstd = bench.empty(DType::f32, {T});
  run(state, bench, args, args.y, made, apart, norm_forward);
}

void swiglu(benchmark::State& state, Made made, bool apart) {
  OpBench bench;
  const int64_t T = state.range(0), F = state.range(1);
  ActivationForwardArgs args;
  args.in = bench.random(DType::bf16, {T, 2 * F}, 1);
  args.out = bench.empty(DType::bf16, {T, F});
  run(state, bench, args, args.out, made, apart, activation_forward);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"T", "width"})->Args({4096, 768})->Args({4096, 4096});
}

BENCHMARK_CAPTURE(norm, mx_apart, Made::mx, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, mx_together, Made::mx, false)->Apply(shapes);
BENCHMARK_CAPTURE(norm, blocks_apart, Made::blocks, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, blocks_together, Made::blocks, false)->Apply(shapes);
BENCHMARK_CAPTURE(norm, amax_apart, Made::amax, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, amax_together, Made::amax, false)->Apply(shapes);
BENCHMARK_CAPTURE(norm, both_amaxes_apart, Made::both_amaxes, true)->Apply(shapes);
BENCHMARK_CAPTURE(norm, both_amaxes_together, Made::both_amaxes, false)->Apply(shapes);
BENCHMARK_CAPTURE(swiglu, mx_apart, Made::mx, true)->Apply(shapes);
BENCHMARK_CAPTURE(swiglu, mx_together, Made::mx, false)->Apply(shapes);
BENCHMARK_CAPTURE(swiglu, amax_apart, Made::amax, true)->Apply(shapes);
BENCHMARK_CAPTURE(swiglu, amax_together, Made::amax, false)->Apply(shapes);

}  // namespace
}  // namespace viaduct
