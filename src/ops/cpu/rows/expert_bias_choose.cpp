// Choice and launch of the biases of experts on the cpu. Features are shared among the threads, so
// that the rows of an expert are summed in their order.

#include <algorithm>

#include "ops/costs.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskFeatures = 256;

/// Calls f(e, begin, end) for each expert and run of features, whose borders depend on the shape
/// alone.
template <class F>
void for_features(OpContext& context, const Tensor& biases, const F& f) {
  const int64_t features = biases.dim(1);
  const int64_t runs = (features + kTaskFeatures - 1) / kTaskFeatures;
  context.device.pool().run(biases.dim(0) * runs, [&](int64_t task, int) {
    const int64_t begin = task % runs * kTaskFeatures;
    f(task / runs, begin, std::min(features, begin + kTaskFeatures));
  });
}

Choice choose_add(const ExpertBiasArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("expert_bias", args.x.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_add(OpContext& context, const Choice& choice, const ExpertBiasArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::expert_bias(args);
  const auto* offsets = args.offsets.data<int32_t>();
  const int64_t features = args.bias.dim(1);
  dispatch_floating(args.x.dtype(), [&](auto row_zero) {
    dispatch_floating(args.bias.dtype(), [&](auto bias_zero) {
      using T = decltype(row_zero);
      using B = decltype(bias_zero);
      for_features(context, args.bias, [&](int64_t e, int64_t begin, int64_t end) {
        const B* bias = args.bias.data<B>() + e * features;
        for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
          T* x = args.x.data<T>() + r * args.x.stride(0);
          for (int64_t i = begin; i < end; ++i)
            x[i] = static_cast<T>(static_cast<float>(x[i]) + static_cast<float>(bias[i]));
        }
      });
    });
  });
}

Choice choose_backward(const ExpertBiasBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("expert_bias_backward", args.dy.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const ExpertBiasBackwardArgs& args,
                     void*) {
  if (choice.variant == kReferenceKernel) return reference::expert_bias_backward(args);
  const auto* offsets = args.offsets.data<int32_t>();
  const int64_t features = args.d_bias.dim(1);
  dispatch_floating(args.dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_features(context, args.d_bias, [&](int64_t e, int64_t begin, int64_t end) {
      float sums[kTaskFeatures] = {};
      for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
        const T* dy = args.dy.data<T>() + r * args.dy.stride(0);
        for (int64_t i = begin; i < end; ++i) sums[i - begin] += static_cast<float>(dy[i]);
      }
      float* out = args.d_bias.data<float>() + e * features;
      for (int64_t i = begin; i < end; ++i) out[i] += sums[i - begin];
    });
  });
}

}  // namespace

void add_expert_bias(OpTable& table, CpuIsa) {
  table.expert_bias = {choose_add, launch_add};
  table.expert_bias_backward = {choose_backward, launch_backward};
}

}  // namespace viaduct::cpu
