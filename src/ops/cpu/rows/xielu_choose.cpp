// Choice and launch of xIELU on the cpu: plain FP32 arithmetic over runs of rows.

#include <algorithm>

#include "ops/costs.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"
#include "ops/xielu_point.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kXieluTaskElements = 16384;

/// Rows of a task: the shape alone decides them.
int64_t rows_of_task(const Tensor& in) {
  return std::max<int64_t>(1, kXieluTaskElements / std::max<int64_t>(1, in.dim(1)));
}

int64_t tasks_of(const Tensor& in) {
  const int64_t rows = rows_of_task(in);
  return (in.dim(0) + rows - 1) / rows;
}

float only_element(const Tensor& x) {
  float value = 0;
  dispatch_floating(x.dtype(),
                    [&](auto zero) { value = static_cast<float>(*x.data<decltype(zero)>()); });
  return value;
}

template <class Args>
XieluSlopes<float> slopes_of(const Args& args) {
  return {only_element(args.alpha_p), only_element(args.alpha_n)};
}

/// Sums over the elements of a task.
struct SlopeSums {
  double p = 0, n = 0;
};

Choice choose_xielu(const XieluForwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("xielu_forward", args.in.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_xielu(OpContext& context, const Choice& choice, const XieluForwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::xielu_forward(args);
  const XieluSlopes<float> slopes = slopes_of(args);
  const int64_t rows = rows_of_task(args.in), width = args.in.dim(1);
  dispatch_floating(args.in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    context.device.pool().run(tasks_of(args.in), [&](int64_t task, int) {
      for (int64_t t = task * rows; t < std::min(args.in.dim(0), (task + 1) * rows); ++t) {
        const T* in = args.in.data<T>() + t * args.in.stride(0);
        T* out = args.out.data<T>() + t * args.out.stride(0);
        for (int64_t i = 0; i < width; ++i)
          out[i] = static_cast<T>(slopes.value(static_cast<float>(in[i])));
      }
    });
  });
}

Choice choose_xielu_backward(const XieluBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("xielu_backward", args.in.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  choice.workspace_bytes = tasks_of(args.in) * static_cast<int64_t>(sizeof(SlopeSums));
  return choice;
}

void launch_xielu_backward(OpContext& context, const Choice& choice, const XieluBackwardArgs& args,
                           void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::xielu_backward(args);
  const XieluSlopes<float> slopes = slopes_of(args);
  auto* const sums = static_cast<SlopeSums*>(workspace);
  const int64_t rows = rows_of_task(args.in), width = args.in.dim(1), tasks = tasks_of(args.in);
  dispatch_floating(args.in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    context.device.pool().run(tasks, [&](int64_t task, int) {
      SlopeSums own;
      for (int64_t t = task * rows; t < std::min(args.in.dim(0), (task + 1) * rows); ++t) {
        const T* in = args.in.data<T>() + t * args.in.stride(0);
        const T* d_out = args.d_out.data<T>() + t * args.d_out.stride(0);
        T* d_in = args.d_in.data<T>() + t * args.d_in.stride(0);
        for (int64_t i = 0; i < width; ++i) {
          const auto x = static_cast<float>(in[i]), d = static_cast<float>(d_out[i]);
          (x > 0 ? own.p : own.n) += static_cast<double>(d * slopes.basis(x));
          d_in[i] = static_cast<T>(d * slopes.derivative(x));
        }
      }
      sums[task] = own;
    });
  });
  if (!args.d_alpha_p) return;
  SlopeSums all;
  for (int64_t task = 0; task < tasks; ++task) all.p += sums[task].p, all.n += sums[task].n;
  *args.d_alpha_p.data<float>() += static_cast<float>(all.p) * slopes.of_raw_p;
  *args.d_alpha_n.data<float>() += static_cast<float>(all.n) * slopes.of_raw_n;
}

}  // namespace

void add_xielu(OpTable& table, CpuIsa) {
  table.xielu_forward = {choose_xielu, launch_xielu};
  table.xielu_backward = {choose_xielu_backward, launch_xielu_backward};
}

}  // namespace viaduct::cpu
