// Choice and launch of attention sinks on the cpu: plain FP32 arithmetic over rows of heads.

#include <algorithm>
#include <cmath>

#include "ops/costs.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskElements = 16384;

/// The element of a floating tensor [N] as FP32.
float element(const Tensor& x, int64_t n) {
  float value = 0;
  dispatch_floating(x.dtype(),
                    [&](auto zero) { value = static_cast<float>(x.data<decltype(zero)>()[n]); });
  return value;
}

/// log(e^a + e^b); b is finite.
float joined(float a, float b) {
  const float largest = std::max(a, b);
  return largest + std::log(std::exp(a - largest) + std::exp(b - largest));
}

Choice choose_sink(const AttentionSinkArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("attention_sink", args.out.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_sink(OpContext& context, const Choice& choice, const AttentionSinkArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::attention_sink(args);
  const int64_t tokens = args.out.dim(0), heads = args.out.dim(1), width = args.out.dim(2);
  auto* lse = args.lse.data<float>();
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, heads * width));
  dispatch_floating(args.out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
      for (int64_t n = 0; n < heads; ++n) {
        const float sink = element(args.sink, n);
        for (int64_t t = task * step; t < std::min(tokens, (task + 1) * step); ++t) {
          float& own = lse[n * tokens + t];
          const float all = joined(own, sink), factor = std::exp(own - all);
          T* out = args.out.data<T>() + t * args.out.stride(0) + n * args.out.stride(1);
          for (int64_t i = 0; i < width; ++i)
            out[i] = static_cast<T>(static_cast<float>(out[i]) * factor);
          own = all;
        }
      }
    });
  });
}

Choice choose_backward(const AttentionSinkBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("attention_sink_backward", args.lse.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice,
                     const AttentionSinkBackwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::attention_sink_backward(args);
  const int64_t tokens = args.lse.dim(1);
  context.device.pool().run(args.lse.dim(0), [&](int64_t n, int) {
    const float sink = element(args.sink, n);
    const float *lse = args.lse.data<float>() + n * tokens,
                *delta = args.delta.data<float>() + n * tokens;
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t)
      sum += static_cast<double>(std::exp(sink - lse[t])) * static_cast<double>(delta[t]);
    args.d_sink.data<float>()[n] -= static_cast<float>(sum);
  });
}

}  // namespace

void add_attention_sink(OpTable& table, CpuIsa) {
  table.attention_sink = {choose_sink, launch_sink};
  table.attention_sink_backward = {choose_backward, launch_backward};
}

}  // namespace viaduct::cpu
