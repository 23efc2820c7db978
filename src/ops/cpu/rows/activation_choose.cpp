#include <algorithm>

#include "ops/cpu/rows/activation_kernels.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

const ActivationKernels& kernels(const Choice& choice) {
  return kernels_of(choice, avx2::activation_kernels, avx512::activation_kernels,
                    avx512_bf16::activation_kernels);
}

/// Operations per element; an exponential counts as 12.
double flops_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return 36;
    case ActivationKind::gelu_tanh:
      return 22;
    case ActivationKind::quick_gelu:
    case ActivationKind::silu:
      return 16;
    case ActivationKind::relu:
      return 1;
    case ActivationKind::squared_relu:
      return 2;
  }
  return 0;
}

constexpr int64_t kTaskElements = 16384;

/// Runs `f(begin, end)` over runs of rows whose boundaries depend on the shape alone.
template <class F>
void for_row_runs(OpContext& context, int64_t rows, int64_t width, F&& f) {
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, width));
  context.device.pool().run((rows + step - 1) / step, [&](int64_t task, int) {
    f(task * step, std::min(rows, (task + 1) * step));
  });
}

template <CpuIsa isa>
Choice choose_forward(const ActivationForwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("activation_forward", isa, args.in.dtype(), args.in.dtype() == DType::bf16);
  const auto elements = static_cast<double>(args.out.elements());
  add_flops(choice, args.in.dtype(), elements * activation_forward_flops(args.kind, args.gated));
  choice.cost.bytes_read = bytes_of(args.in);
  choice.cost.bytes_written = bytes_of(args.out);
  return choice;
}

void launch_forward(OpContext& context, const Choice& choice, const ActivationForwardArgs& args,
                    void*) {
  if (choice.variant == kReferenceKernel) return reference::activation_forward(args);
  ActivationRows rows{args.kind,          args.gated, args.out.dim(1), row_view(args.in),
                      row_view(args.out), {},         args.out.dim(1)};
  for_row_runs(context, args.in.dim(0), args.in.dim(1),
               [&](int64_t begin, int64_t end) { kernels(choice).forward(rows, begin, end); });
}

template <CpuIsa isa>
Choice choose_backward(const ActivationBackwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("activation_backward", isa, args.in.dtype(), args.in.dtype() == DType::bf16);
  const auto elements = static_cast<double>(args.d_out.elements());
  add_flops(choice, args.in.dtype(), elements * activation_backward_flops(args.kind, args.gated));
  choice.cost.bytes_read = bytes_of(args.in) + bytes_of(args.d_out);
  choice.cost.bytes_written = bytes_of(args.d_in);
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const ActivationBackwardArgs& args,
                     void*) {
  if (choice.variant == kReferenceKernel) return reference::activation_backward(args);
  ActivationRows rows{args.kind,         args.gated,           args.d_out.dim(1),
                      row_view(args.in), row_view(args.d_out), row_view(args.d_in),
                      args.d_out.dim(1)};
  for_row_runs(context, args.in.dim(0), args.in.dim(1),
               [&](int64_t begin, int64_t end) { kernels(choice).backward(rows, begin, end); });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.activation_forward = {choose_forward<isa>, launch_forward};
  table.activation_backward = {choose_backward<isa>, launch_backward};
}

}  // namespace

double activation_forward_flops(ActivationKind kind, bool gated) {
  return flops_of(kind) + (gated ? 1 : 0);
}

double activation_backward_flops(ActivationKind kind, bool gated) {
  return flops_of(kind) + (gated ? 8 : 6);
}

void add_activation(OpTable& table, CpuIsa isa) {
  if (isa == CpuIsa::avx2) return fill<CpuIsa::avx2>(table);
  isa == CpuIsa::avx512 ? fill<CpuIsa::avx512>(table) : fill<CpuIsa::avx512_bf16>(table);
}

}  // namespace viaduct::cpu
