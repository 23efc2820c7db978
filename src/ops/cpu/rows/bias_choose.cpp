// Choice and launch of a bias on the cpu: the elementwise sum, row by row.

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

Choice choose_bias_add(const BiasAddArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("bias_add", args.out.dtype(), traits, "vector");
  choice.cost = cost_of(args);
  return choice;
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_bias_add(OpContext& context, const Choice& choice, const BiasAddArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::bias_add(args);
  for_row_runs(context.device.pool(), args.out.dim(0), args.out.dim(1),
               [&](int64_t row, int64_t begin, int64_t n) {
                 kKernels().add(row_address(args.x, row, begin), args.x.dtype(),
                                row_address(args.bias, 0, begin), args.bias.dtype(),
                                row_address(args.out, row, begin), args.out.dtype(), n);
               });
}

}  // namespace

void add_bias(OpTable& table, CpuIsa isa) {
  table.bias_add = {choose_bias_add, of_isa(isa, launch_bias_add<portable::elementwise_kernels>,
                                            launch_bias_add<avx2::elementwise_kernels>,
                                            launch_bias_add<avx512::elementwise_kernels>)};
}

}  // namespace viaduct::cpu
