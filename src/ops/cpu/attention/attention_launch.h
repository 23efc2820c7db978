#pragma once
// Common parts of attention launches, flash-style or with the score matrix in memory: documents,
// and tasks on slots of the workspace.

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/attention.h"

namespace viaduct::cpu {

// Scratch is per slot, not per thread: a slot takes blocks until none is left, so `choose` knows
// the bytes without knowing the number of threads. Further threads are idle.
inline constexpr int64_t kAttentionSlots = 64;

inline int64_t round_up_to(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline int64_t attention_documents(const AttentionProblem& problem) {
  return problem.q_offsets.dim(0) - 1;
}

/// Offsets of the documents, checked against the number of tokens.
inline void check_attention_offsets(std::string_view op, std::string_view name,
                                    const Tensor& offsets, int64_t tokens) {
  const auto* at = offsets.data<int32_t>();
  const int64_t last = offsets.dim(0) - 1;
  VIADUCT_CHECK(ShapeError, at[0] == 0 && at[last] == tokens,
                "{}: {}: expected to run from 0 to {}, found {} to {}", op, name, tokens, at[0],
                at[last]);
  for (int64_t d = 0; d < last; ++d) {
    VIADUCT_CHECK(ShapeError, at[d] <= at[d + 1],
                  "{}: {}: expected ascending offsets, found {} before {} at {}", op, name, at[d],
                  at[d + 1], d);
  }
}

/// Runs `f(task, scratch)` for every task on at most `slots` slots of `floats` floats each.
template <class F>
void run_on_attention_slots(ThreadPool& pool, int64_t tasks, int64_t slots, int64_t floats,
                            void* workspace, F&& f) {
  std::atomic<int64_t> next{0};
  pool.run(std::min(tasks, slots), [&](int64_t slot, int) {
    float* scratch = static_cast<float*>(workspace) + slot * floats;
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
      f(task, scratch);
    }
  });
}

}  // namespace viaduct::cpu
