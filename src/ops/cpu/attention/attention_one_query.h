#pragma once
// Attention of single queries, as in generation: the query heads that share keys and values are the
// rows of one block, which reads keys and values in place, once, a run at a time. Every element is
// computed as in the blocks of many queries, so the bits are the same.

#include "ops/cpu/attention/attention_launch.h"

namespace viaduct::cpu {

/// Maximum number of query heads in a group.
inline constexpr int64_t kOneQueryHeads = 16;

/// Whether each document has at most one query, and the kernels of single queries support the
/// problem, which codes of FP8 and a bias are not. Depends on shapes alone.
inline bool asks_single_queries(const AttentionForwardArgs& args) {
  return args.problem.max_queries == 1 && args.problem.dropout == 0 && !args.problem.scales &&
         !args.problem.bias && args.q.dim(1) / args.k.dim(1) <= kOneQueryHeads;
}

/// Runs `f(document, key-value head, scratch)` for every document with a query.
template <class F>
void for_each_single_query(ThreadPool& pool, const AttentionForwardArgs& args, int64_t slots,
                           int64_t floats, void* workspace, F&& f) {
  const auto* offsets = args.problem.q_offsets.data<int32_t>();
  const int64_t documents = attention_documents(args.problem), kv_heads = args.k.dim(1);
  for (int64_t d = 0; d < documents; ++d) {
    VIADUCT_CHECK(ShapeError, offsets[d + 1] - offsets[d] <= 1,
                  "attention_forward: document {} has {} queries, but max_queries is 1", d,
                  offsets[d + 1] - offsets[d]);
  }
  run_on_attention_slots(pool, documents * kv_heads, slots, floats, workspace,
                         [&](int64_t task, float* scratch) {
                           const int64_t d = task / kv_heads;
                           if (offsets[d + 1] > offsets[d]) f(d, task % kv_heads, scratch);
                         });
}

}  // namespace viaduct::cpu
