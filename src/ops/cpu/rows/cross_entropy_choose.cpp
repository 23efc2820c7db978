// Choice and launch of softmax cross entropy on the cpu: a task is a few rows.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/cross_entropy_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

/// Rows of a task: about 64 K columns, so that small vocabularies do not make too many tasks.
int64_t rows_per_task(int64_t columns) {
  return std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, columns));
}

const std::byte* row_of(const Tensor& logits, int64_t t) {
  return static_cast<const std::byte*>(logits.raw()) +
         t * logits.stride(0) * dtype_bytes(logits.dtype());
}

float element(const Tensor& logits, int64_t t, int64_t column) {
  const int64_t at = t * logits.stride(0) + column;
  if (logits.dtype() == DType::bf16) return static_cast<float>(logits.data<bfloat16>()[at]);
  if (logits.dtype() == DType::f16) return static_cast<float>(logits.data<float16>()[at]);
  return logits.data<float>()[at];
}

/// Calls row(t) for all rows on the pool.
template <class Row>
void for_rows(OpContext& context, const Tensor& logits, const Row& row) {
  const int64_t rows = logits.dim(0), step = rows_per_task(logits.dim(1));
  context.device.pool().run((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t t = task * step; t < end; ++t) row(t);
  });
}

template <const CrossEntropyKernels& (*kKernels)()>
void launch_forward(OpContext& context, const Choice& choice, const CrossEntropyForwardArgs& args,
                    void*) {
  if (choice.variant == kReferenceKernel) return reference::cross_entropy_forward(args);
  const int32_t* targets = args.targets.data<int32_t>();
  double* lse = args.lse.data<double>();
  double* target_logit = args.target_logit.data<double>();
  const float softcap = static_cast<float>(args.softcap);
  for_rows(context, args.logits, [&](int64_t t) {
    float largest = 0;
    double sum = 0;
    kKernels().row_sum(row_of(args.logits, t), args.logits.dtype(), args.columns, softcap, &largest,
                       &sum);
    lse[t] = largest + std::log(sum);
    const int64_t target = targets[t] - args.first_column;
    const bool here = target >= 0 && target < args.columns;
    target_logit[t] = here ? kKernels().capped(element(args.logits, t, target), softcap) : 0;
  });
}

template <const CrossEntropyKernels& (*kKernels)()>
void launch_backward(OpContext& context, const Choice& choice, const CrossEntropyBackwardArgs& args,
                     void*) {
  if (choice.variant == kReferenceKernel) return reference::cross_entropy_backward(args);
  const int32_t* targets = args.targets.data<int32_t>();
  const double* lse = args.lse.data<double>();
  const float* weight = args.weight.data<float>();
  const double factor = args.factor.data<double>()[0];
  const int64_t width = args.logits.dim(1);
  const int64_t row_bytes = width * dtype_bytes(args.out.dtype());
  for_rows(context, args.logits, [&](int64_t t) {
    auto* out = static_cast<std::byte*>(args.out.raw()) +
                t * args.out.stride(0) * dtype_bytes(args.out.dtype());
    if (weight[t] == 0) {
      std::memset(out, 0, static_cast<size_t>(row_bytes));
      return;
    }
    int64_t target = targets[t] - args.first_column;
    if (target < 0 || target >= args.columns) target = -1;
    kKernels().row_gradient(row_of(args.logits, t), args.logits.dtype(), args.columns, width,
                            lse[t], static_cast<float>(weight[t] * factor), target,
                            static_cast<float>(args.softcap), out, args.out.dtype());
  });
}

// A few FP64 numbers for each token: the reference is fast enough.
void launch_share(OpContext&, const Choice&, const LseShareArgs& args, void*) {
  reference::lse_share(args);
}
void launch_join(OpContext&, const Choice&, const LseJoinArgs& args, void*) {
  reference::lse_join(args);
}

Choice choose_forward(const CrossEntropyForwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("cross_entropy_forward", args.logits.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_backward(const CrossEntropyBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("cross_entropy_backward", args.logits.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_share(const LseShareArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("lse_share", args.lse.dtype(), traits, "scalar");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_join(const LseJoinArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("lse_join", args.lse.dtype(), traits, "scalar");
  choice.cost = cost_of(args);
  return choice;
}

template <const CrossEntropyKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.cross_entropy_forward = {choose_forward, launch_forward<kKernels>};
  table.cross_entropy_backward = {choose_backward, launch_backward<kKernels>};
  table.lse_share = {choose_share, launch_share};
  table.lse_join = {choose_join, launch_join};
}

}  // namespace

void add_cross_entropy(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<portable::cross_entropy_kernels>, fill_table<avx2::cross_entropy_kernels>,
         fill_table<avx512::cross_entropy_kernels>,
         fill_table<avx512_bf16::cross_entropy_kernels>)(table);
}

}  // namespace viaduct::cpu
