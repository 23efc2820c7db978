// Choice and launch on the cpu of routers' ops other than the choice of experts: the bias that
// balances them, their capacity, noise and random scores. A few operations a token.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/expert_capacity.h"
#include "ops/load_bias.h"
#include "ops/random_rows.h"
#include "ops/reference/reference.h"
#include "ops/step_scalars.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTaskElements = 1 << 14;

/// f(value type) for f32 and f64.
template <class F>
void with_accumulator(DType dtype, const F& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

void launch_error(OpContext&, const Choice&, const LoadErrorArgs& args, void*) {
  const int64_t experts = args.counts.dim(0);
  const auto* n = args.counts.data<int64_t>();
  const int64_t all = std::accumulate(n, n + experts, int64_t{0});
  with_accumulator(args.out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = args.out.data<T>();
    for (int64_t e = 0; e < experts; ++e) {
      const T error = static_cast<T>(experts * n[e] - all);
      out[e] = args.mode == WriteMode::assign ? error : out[e] + error;
    }
  });
}

void launch_move(OpContext&, const Choice&, const MoveLoadBiasArgs& args, void*) {
  if (*step_scalar(args.scalars, StepScalar::skip).data<double>() != 0) return;
  with_accumulator(args.bias.dtype(), [&](auto zero) {
    using T = decltype(zero);
    with_accumulator(args.error.dtype(), [&](auto other) {
      const auto* error = args.error.data<decltype(other)>();
      T* bias = args.bias.data<T>();
      const T rate = static_cast<T>(args.rate);
      for (int64_t e = 0; e < args.bias.elements(); ++e) {
        if (!args.set) {
          bias[e] -= error[e] > 0 ? rate : error[e] < 0 ? -rate : T{0};
        } else if (!std::isnan(error[e])) {
          bias[e] = static_cast<T>(error[e]);
        }
      }
      if (!args.weight) return;
      dispatch_floating(args.weight.dtype(), [&](auto narrow) {
        auto* weight = args.weight.data<decltype(narrow)>();
        for (int64_t e = 0; e < args.bias.elements(); ++e)
          weight[e] = static_cast<decltype(narrow)>(static_cast<float>(bias[e]));
      });
    });
  });
}

/// The choices of each run of experts in the order of tokens, cut by policy.
template <class T>
void limit(const LimitExpertsArgs& args) {
  auto* const choice = args.choice.data<int32_t>();
  T* const p = args.probabilities.data<T>();
  std::vector<std::vector<int32_t>> own(static_cast<size_t>(args.experts / args.experts_together));
  for (int64_t i = 0; i < args.choice.elements(); ++i) {
    if (choice[i] < 0) continue;  // dropped before
    own[static_cast<size_t>(choice[i] / args.experts_together)].push_back(static_cast<int32_t>(i));
  }
  const auto capacity = static_cast<size_t>(args.capacity);
  const auto better = [&](int32_t a, int32_t b) {
    const bool nan_a = std::isnan(p[a]), nan_b = std::isnan(p[b]);
    if (nan_a != nan_b) return nan_a;
    return nan_a || p[a] == p[b] ? a < b : p[a] > p[b];
  };
  for (std::vector<int32_t>& list : own) {
    if (list.size() <= capacity) continue;
    if (args.policy == DropPolicy::probabilities)
      std::nth_element(list.begin(), list.begin() + args.capacity, list.end(), better);
    for (size_t i = capacity; i < list.size(); ++i) choice[list[i]] = -1, p[list[i]] = 0;
  }
}

void launch_limit(OpContext&, const Choice&, const LimitExpertsArgs& args, void*) {
  with_accumulator(args.probabilities.dtype(), [&](auto zero) { limit<decltype(zero)>(args); });
}

/// f(t, h, u) for each token and feature, u as ops/random_rows.h has it.
template <class F>
void for_random(OpContext& context, const Tensor& out, const RandomKey& random,
                const Tensor& token_index, const F& f) {
  const uint64_t key = philox_key(random);
  const int64_t tokens = out.dim(0), width = out.dim(1);
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, width));
  context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
    for (int64_t t = task * step; t < std::min(tokens, (task + 1) * step); ++t) {
      const auto token = static_cast<uint64_t>(token_index.data<int64_t>()[t]);
      for (int64_t h = 0; h < width; h += 4) {
        const auto words = philox4x32(key, token, static_cast<uint64_t>(h / 4));
        for (int64_t i = 0; i < std::min<int64_t>(4, width - h); ++i)
          f(t, h + i, uniform_open(words[static_cast<size_t>(i)]));
      }
    }
  });
}

void launch_jitter(OpContext& context, const Choice& choice, const JitterArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::jitter(args);
  const auto epsilon = static_cast<float>(args.epsilon);
  dispatch_floating(args.out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = args.x.data<T>();
    T* out = args.out.data<T>();
    for_random(context, args.out, args.key, args.token_index, [&](int64_t t, int64_t h, float u) {
      const auto value = static_cast<float>(x[t * args.x.stride(0) + h]);
      out[t * args.out.stride(0) + h] = static_cast<T>(value * (1 + epsilon * (2 * u - 1)));
    });
  });
}

void launch_random(OpContext& context, const Choice&, const RandomRowsArgs& args, void*) {
  with_accumulator(args.out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = args.out.data<T>();
    for_random(context, args.out, args.key, args.token_index, [&](int64_t t, int64_t h, float u) {
      out[t * args.out.stride(0) + h] = static_cast<T>(u);
    });
  });
}

Choice choose_error(const LoadErrorArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "vector";
  choice.cost.bytes_read = args.counts.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_move(const MoveLoadBiasArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "vector";
  choice.cost.bytes_read = args.bias.bytes() + args.error.bytes();
  choice.cost.bytes_written = args.bias.bytes() + bytes_of(args.weight);
  return choice;
}

Choice choose_limit(const LimitExpertsArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "select";
  choice.cost.bytes_read = args.choice.bytes() + args.probabilities.bytes();
  choice.cost.bytes_written = choice.cost.bytes_read;
  return choice;
}

Choice choose_jitter(const JitterArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("jitter", args.out.dtype(), traits, "philox");
  add_flops(choice, args.out.dtype(), 4.0 * static_cast<double>(args.out.elements()));
  choice.cost.bytes_read = args.x.bytes() + args.token_index.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_random(const RandomRowsArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "philox";
  choice.cost.bytes_read = args.token_index.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

}  // namespace

void add_router_extras(OpTable& table, CpuIsa) {
  table.load_error = {choose_error, launch_error};
  table.move_load_bias = {choose_move, launch_move};
  table.limit_experts = {choose_limit, launch_limit};
  table.jitter = {choose_jitter, launch_jitter};
  table.random_rows = {choose_random, launch_random};
}

}  // namespace viaduct::cpu
