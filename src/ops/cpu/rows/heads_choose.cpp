// Choice and launch on the cpu of values that heads share. Rows are short (the rotary part of a
// key): tokens are shared among the threads, and a row is plain FP32 arithmetic.

#include <algorithm>
#include <vector>

#include "ops/costs.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskElements = 16384;

/// Calls f(t) for all tokens of heads [T, N, D], in tasks whose borders depend on the shape alone.
template <class F>
void for_tokens(OpContext& context, const Tensor& heads, const F& f) {
  const int64_t tokens = heads.dim(0);
  const int64_t step =
      std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, heads.dim(1) * heads.dim(2)));
  context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
    for (int64_t t = task * step; t < std::min(tokens, (task + 1) * step); ++t) f(t);
  });
}

Choice choose_repeat(const RepeatHeadsArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("repeat_heads", args.out.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_repeat(OpContext& context, const Choice& choice, const RepeatHeadsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::repeat_heads(args);
  const int64_t width = args.out.dim(2);
  dispatch_floating(args.x.dtype(), [&](auto from_zero) {
    dispatch_floating(args.out.dtype(), [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      for_tokens(context, args.out, [&](int64_t t) {
        const From* x = args.x.data<From>() + t * args.x.stride(0);
        To* first = args.out.data<To>() + t * args.out.stride(0);
        for (int64_t i = 0; i < width; ++i) first[i] = static_cast<To>(static_cast<float>(x[i]));
        for (int64_t n = 1; n < args.out.dim(1); ++n)
          std::copy(first, first + width, first + n * args.out.stride(1));
      });
    });
  });
}

Choice choose_sum(const SumHeadsArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("sum_heads", args.x.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_sum(OpContext& context, const Choice& choice, const SumHeadsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::sum_heads(args);
  const int64_t width = args.out.dim(1), heads = args.x.dim(1);
  dispatch_floating(args.x.dtype(), [&](auto from_zero) {
    dispatch_floating(args.out.dtype(), [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      for_tokens(context, args.x, [&](int64_t t) {
        std::vector<float> sums(static_cast<size_t>(width), 0.0f);
        for (int64_t n = 0; n < heads; ++n) {
          const From* x = args.x.data<From>() + t * args.x.stride(0) + n * args.x.stride(1);
          for (int64_t i = 0; i < width; ++i)
            sums[static_cast<size_t>(i)] += static_cast<float>(x[i]);
        }
        To* out = args.out.data<To>() + t * args.out.stride(0);
        for (int64_t i = 0; i < width; ++i) out[i] = static_cast<To>(sums[static_cast<size_t>(i)]);
      });
    });
  });
}

}  // namespace

void add_heads(OpTable& table, CpuIsa) {
  table.repeat_heads = {choose_repeat, launch_repeat};
  table.sum_heads = {choose_sum, launch_sum};
}

}  // namespace viaduct::cpu
