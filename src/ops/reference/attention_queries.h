#pragma once
// Iterates over the queries of an attention problem, for its definitions in FP64.

#include <algorithm>

#include "ops/attention.h"

namespace viaduct::reference {

/// One query of one head with the keys that it sees: [first, last) of `keys` inside the document.
struct AttentionQuery {
  int64_t token, head, kv_head;          // rows of q and k, v
  int64_t key_token, keys, first, last;  // key j is row key_token + j
  int64_t place;                         // where the query stands among the keys: i + e
};

/// Calls f for every (document, query, head) of `heads` query heads.
template <class F>
void for_attention_queries(const AttentionProblem& problem, int64_t heads, int64_t kv_heads,
                           F&& f) {
  const auto* q_offsets = problem.q_offsets.data<int32_t>();
  const auto* kv_offsets = problem.kv_offsets.data<int32_t>();
  for (int64_t d = 0; d + 1 < problem.q_offsets.dim(0); ++d) {
    const int64_t keys = kv_offsets[d + 1] - kv_offsets[d];
    const int64_t diagonal = problem.diagonal ? problem.diagonal.data<int32_t>()[d] : 0;
    for (int64_t i = 0; i < q_offsets[d + 1] - q_offsets[d]; ++i) {
      const int64_t first =
          problem.window > 0 ? std::max<int64_t>(0, i + diagonal - problem.window + 1) : 0;
      const int64_t last = problem.causal ? std::min(keys, i + diagonal + 1) : keys;
      for (int64_t n = 0; n < heads; ++n) {
        f(AttentionQuery{q_offsets[d] + i, n, n / (heads / kv_heads), kv_offsets[d], keys, first,
                         last, i + diagonal});
      }
    }
  }
}

/// Dropout's factor of the probability of key j: 0 or 1 / (1 − p).
inline double attention_keep(const AttentionProblem& problem, const AttentionQuery& query,
                             int64_t j) {
  if (problem.dropout == 0) return 1;
  const int64_t position =
      problem.key_position ? problem.key_position.data<int32_t>()[query.key_token + j] : j;
  const auto bits =
      philox4x32(philox_key(problem.dropout_key),
                 static_cast<uint64_t>(problem.query_index.data<int64_t>()[query.token]),
                 static_cast<uint64_t>(problem.first_head + query.head) << 32 |
                     static_cast<uint64_t>(position));
  return static_cast<double>(uniform_open(bits[0])) >= problem.dropout ? 1 / (1 - problem.dropout)
                                                                       : 0;
}

}  // namespace viaduct::reference
