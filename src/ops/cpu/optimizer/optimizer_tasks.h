#pragma once
// Shared code of the optimizer ops: the kernels of a choice, the scalars of a step, and tasks of
// elements.

#include <algorithm>
#include <cstdint>

#include "ops/cpu/optimizer/optimizer_kernels.h"
#include "ops/cpu/optimizer/state_kernels.h"
#include "tensor/state_formats.h"

namespace viaduct::cpu {

/// Of a choice made by `narrowing_choice`.
inline const OptimizerKernels& optimizer_kernels_of(const Choice& choice) {
  return kernels_of(choice, portable::optimizer_kernels, avx2::optimizer_kernels,
                    avx512::optimizer_kernels, avx512_bf16::optimizer_kernels);
}

inline const StateKernels& state_kernels_of(const Choice& choice) {
  return kernels_of(choice, portable::state_kernels, avx2::state_kernels, avx512::state_kernels);
}

inline double scalar_of(const Tensor& scalars, StepScalar name) {
  return scalars.data<double>()[static_cast<int>(name)];
}

inline constexpr int64_t kElementsOfTask = 65536;
static_assert(kElementsOfTask % kStateGroup == 0, "a task would cut a group of optimizer state");

/// f(begin, end) over tasks of `elements` elements, on the pool.
template <class F>
void for_tasks(OpContext& context, int64_t elements, F&& f) {
  context.device.pool().run((elements + kElementsOfTask - 1) / kElementsOfTask,
                            [&](int64_t i, int) {
                              f(i * kElementsOfTask, std::min(elements, (i + 1) * kElementsOfTask));
                            });
}

}  // namespace viaduct::cpu
