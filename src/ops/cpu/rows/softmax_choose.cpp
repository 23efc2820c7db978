// Choice and launch of the steps of a softmax on the cpu: a task is a few rows.

#include <algorithm>
#include <limits>

#include "ops/costs.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/softmax_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

/// Calls row(t) for all rows of x on the pool; a task has about 64 K elements.
template <class Row>
void for_rows(OpContext& context, const Tensor& x, const Row& row) {
  const int64_t rows = x.dim(0);
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, x.dim(1)));
  context.device.pool().run((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t t = task * step; t < end; ++t) row(t);
  });
}

float* row_of(const Tensor& tensor, int64_t t) {
  return tensor.data<float>() + t * tensor.stride(0);
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_soft_cap(OpContext& context, const Choice& choice, const SoftCapArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::soft_cap(args);
  for_rows(context, args.x, [&](int64_t t) {
    kKernels().soft_cap(row_of(args.x, t), static_cast<float>(args.cap), row_of(args.out, t),
                        args.x.dim(1));
  });
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_soft_cap_backward(OpContext& context, const Choice& choice,
                              const SoftCapBackwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::soft_cap_backward(args);
  for_rows(context, args.z, [&](int64_t t) {
    kKernels().soft_cap_backward(row_of(args.d_out, t), row_of(args.z, t),
                                 static_cast<float>(args.cap), row_of(args.d_in, t), args.z.dim(1));
  });
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_largest(OpContext& context, const Choice& choice, const RowLargestArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::row_largest(args);
  for_rows(context, args.x, [&](int64_t t) {
    args.out.data<float>()[t] = args.columns > 0
                                    ? kKernels().largest(row_of(args.x, t), args.columns)
                                    : -std::numeric_limits<float>::infinity();
  });
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_exponential(OpContext& context, const Choice& choice, const RowExponentialArgs& args,
                        void*) {
  if (choice.variant == kReferenceKernel) return reference::row_exponential(args);
  for_rows(context, args.x, [&](int64_t t) {
    float* const out = row_of(args.out, t);
    kKernels().exponential(row_of(args.x, t), args.shift.data<float>()[t], out, args.columns);
    std::fill(out + args.columns, out + args.out.dim(1), 0.0f);
  });
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_sum(OpContext& context, const Choice& choice, const RowSumArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::row_sum(args);
  for_rows(context, args.x, [&](int64_t t) {
    args.out.data<float>()[t] = kKernels().sum(row_of(args.x, t), args.columns);
  });
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_divide(OpContext& context, const Choice& choice, const RowDivideArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::row_divide(args);
  for_rows(context, args.x, [&](int64_t t) {
    kKernels().divide(row_of(args.x, t), args.divisor.data<float>()[t], row_of(args.out, t),
                      args.x.dim(1));
  });
}

/// The index of a row's target among the columns; −1: not among them.
int64_t place_of(const Tensor& targets, int64_t t, int64_t first_column, int64_t columns) {
  const int64_t place = targets.data<int32_t>()[t] - first_column;
  return place >= 0 && place < columns ? place : -1;
}

void launch_pick(OpContext&, const Choice& choice, const RowPickArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::row_pick(args);
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    const int64_t place = place_of(args.targets, t, args.first_column, args.columns);
    args.out.data<float>()[t] = place < 0 ? 0 : row_of(args.x, t)[place];
  }
}

template <const SoftmaxKernels& (*kKernels)()>
void launch_loss_backward(OpContext& context, const Choice& choice,
                          const SoftmaxLossBackwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::softmax_loss_backward(args);
  const double factor = args.factor.data<double>()[0];
  for_rows(context, args.out, [&](int64_t t) {
    const float* p = row_of(args.probabilities, t);
    float* const out = row_of(args.out, t);
    const float scale = static_cast<float>(args.weight.data<float>()[t] * factor);
    const int64_t used = scale == 0 ? 0 : args.columns;
    const int64_t target = place_of(args.targets, t, args.first_column, used);
    const float at_target = target < 0 ? 0 : p[target];  // before out, which may be p
    kKernels().scale(p, scale, out, used);
    if (target >= 0) out[target] = scale * (at_target - 1);
    std::fill(out + used, out + args.out.dim(1), 0.0f);
  });
}

template <class Args>
Choice choose(std::string_view op, DType dtype, const Args& args, const Traits& traits) {
  Choice choice = choose_by_dtype(op, dtype, traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_soft_cap(const SoftCapArgs& args, const Traits& traits) {
  return choose("soft_cap", args.x.dtype(), args, traits);
}
Choice choose_soft_cap_backward(const SoftCapBackwardArgs& args, const Traits& traits) {
  return choose("soft_cap_backward", args.z.dtype(), args, traits);
}
Choice choose_largest(const RowLargestArgs& args, const Traits& traits) {
  return choose("row_largest", args.x.dtype(), args, traits);
}
Choice choose_exponential(const RowExponentialArgs& args, const Traits& traits) {
  return choose("row_exponential", args.x.dtype(), args, traits);
}
Choice choose_sum(const RowSumArgs& args, const Traits& traits) {
  return choose("row_sum", args.x.dtype(), args, traits);
}
Choice choose_divide(const RowDivideArgs& args, const Traits& traits) {
  return choose("row_divide", args.x.dtype(), args, traits);
}
Choice choose_pick(const RowPickArgs& args, const Traits& traits) {
  return choose("row_pick", args.out.dtype(), args, traits);
}
Choice choose_loss_backward(const SoftmaxLossBackwardArgs& args, const Traits& traits) {
  return choose("softmax_loss_backward", args.out.dtype(), args, traits);
}

template <const SoftmaxKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.soft_cap = {choose_soft_cap, launch_soft_cap<kKernels>};
  table.soft_cap_backward = {choose_soft_cap_backward, launch_soft_cap_backward<kKernels>};
  table.row_largest = {choose_largest, launch_largest<kKernels>};
  table.row_exponential = {choose_exponential, launch_exponential<kKernels>};
  table.row_sum = {choose_sum, launch_sum<kKernels>};
  table.row_divide = {choose_divide, launch_divide<kKernels>};
  table.row_pick = {choose_pick, launch_pick};
  table.softmax_loss_backward = {choose_loss_backward, launch_loss_backward<kKernels>};
}

}  // namespace

void add_softmax(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<portable::softmax_kernels>, fill_table<avx2::softmax_kernels>,
         fill_table<avx512::softmax_kernels>)(table);
}

}  // namespace viaduct::cpu
