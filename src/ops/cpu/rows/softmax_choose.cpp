// Choice and launch of the steps of a softmax on the cpu: a task is a few rows.

#include <algorithm>
#include <limits>

#include "ops/costs.h"
#include "ops/cpu/rows/softmax_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const SoftmaxKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::softmax_kernels, avx2::softmax_kernels,
                    avx512::softmax_kernels);
}

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

/// The column of a row's target; −1: it is not among the columns.
int64_t target_of(const RowTargets& targets, int64_t t, int64_t columns) {
  const int64_t column = targets.ids.data<int32_t>()[t] - targets.first_column;
  return column >= 0 && column < columns ? column : -1;
}

float value_of(const SoftmaxKernels& kernel, const ReduceRowsArgs& args, int64_t t) {
  const float* const x = row_of(args.x, t);
  if (args.value == RowValue::sum) return kernel.sum(x, args.columns);
  if (args.value == RowValue::largest) {
    return args.columns > 0 ? kernel.largest(x, args.columns)
                            : -std::numeric_limits<float>::infinity();
  }
  const int64_t target = target_of(args.targets, t, args.columns);
  return target < 0 ? 0 : x[target];
}

void launch_reduce(OpContext& context, const Choice& choice, const ReduceRowsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::reduce_rows(args);
  float* const out = args.out.data<float>();
  for_rows(context, args.x, [&](int64_t t) { out[t] = value_of(kernels(choice), args, t); });
}

void launch_map(OpContext& context, const Choice& choice, const MapRowsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::map_rows(args);
  const bool loss = args.map == RowMap::loss_backward;
  const double factor = loss ? args.factor.data<double>()[0] : 0;
  for_rows(context, args.x, [&](int64_t t) {
    const float* const x = row_of(args.x, t);
    float* const out = row_of(args.out, t);
    RowNumbers numbers{nullptr, static_cast<float>(args.cap)};
    if (args.map == RowMap::soft_cap_backward) numbers.by = row_of(args.by, t);
    if (args.map == RowMap::exponential || args.map == RowMap::divide)
      numbers.number = args.by.data<float>()[t];
    if (loss) numbers.number = static_cast<float>(args.weight.data<float>()[t] * factor);
    const int64_t used = loss && numbers.number == 0 ? 0 : args.columns;
    const int64_t target = loss ? target_of(args.targets, t, used) : -1;
    const float at_target = target < 0 ? 0 : x[target];  // before out, which may be x
    kernels(choice).map(args.map, x, numbers, out, used);
    if (target >= 0) out[target] = numbers.number * (at_target - 1);
    std::fill(out + used, out + args.out.dim(1), 0.0f);
  });
}

template <CpuIsa isa, class Args>
Choice choose(const Args& args, const Traits&) {
  Choice choice = vector_choice("softmax", isa, args.x.dtype());
  choice.cost = cost_of(args);
  return choice;
}

template <CpuIsa isa>
void fill_table(OpTable& table) {
  table.reduce_rows = {choose<isa, ReduceRowsArgs>, launch_reduce};
  table.map_rows = {choose<isa, MapRowsArgs>, launch_map};
}

}  // namespace

void add_softmax(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<CpuIsa::portable>, fill_table<CpuIsa::avx2>,
         fill_table<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
