#include <algorithm>

#include "ops/cpu/gemm/produced_rows.h"
#include "ops/cpu/rows/activation_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const ActivationKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::activation_kernels, avx2::activation_kernels,
                    avx512::activation_kernels, avx512_bf16::activation_kernels);
}

constexpr int64_t kTaskElements = 16384;

/// Runs `f(begin, end)` over runs of rows, multiples of `together`, whose boundaries depend only on
/// the shape.
template <class F>
void for_row_runs(OpContext& context, int64_t rows, int64_t width, int64_t together, F&& f) {
  const int64_t step =
      std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, width * together)) * together;
  context.device.pool().run((rows + step - 1) / step, [&](int64_t task, int) {
    f(task * step, std::min(rows, (task + 1) * step));
  });
}

template <CpuIsa isa>
Choice choose_forward(const ActivationForwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("activation_forward", isa, args.in.dtype(), args.in.dtype() == DType::bf16);
  choice.cost = cost_of(args);
  return choice;
}

void launch_forward(OpContext& context, const Choice& choice, const ActivationForwardArgs& args,
                    void*) {
  if (choice.variant == kReferenceKernel) return reference::activation_forward(args);
  ActivationRows rows{args.kind,          args.gated, args.out.dim(1), row_view(args.in),
                      row_view(args.out), {},         args.out.dim(1)};
  rows.shape = args.shape;
  const FormKernels form_kernels = cpu::form_kernels(isa_of(choice));
  begin_forms(args.forms);
  for_row_runs(context, args.in.dim(0), args.in.dim(1), rows_together(args.forms),
               [&](int64_t begin, int64_t end) {
                 kernels(choice).forward(rows, begin, end);
                 if (args.forms.any())
                   make_forms(args.forms, args.out, form_kernels, begin, end - begin, 0,
                              args.out.dim(1));
               });
  end_forms(args.forms);
}

template <CpuIsa isa>
Choice choose_backward(const ActivationBackwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("activation_backward", isa, args.in.dtype(), args.in.dtype() == DType::bf16);
  choice.cost = cost_of(args);
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const ActivationBackwardArgs& args,
                     void*) {
  if (choice.variant == kReferenceKernel) return reference::activation_backward(args);
  ActivationRows rows{args.kind,         args.gated,           args.d_out.dim(1),
                      row_view(args.in), row_view(args.d_out), row_view(args.d_in),
                      args.d_out.dim(1), args.d_out.dim(1)};
  rows.shape = args.shape;
  for_row_runs(context, args.in.dim(0), args.in.dim(1), 1,
               [&](int64_t begin, int64_t end) { kernels(choice).backward(rows, begin, end); });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.activation_forward = {choose_forward<isa>, launch_forward};
  table.activation_backward = {choose_backward<isa>, launch_backward};
}

}  // namespace

void add_activation(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>,
         fill<CpuIsa::avx512_bf16>)(table);
}

}  // namespace viaduct::cpu
