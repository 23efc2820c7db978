#pragma once
// Checks common to attention in both implementations, flash-style and with the score matrix in
// memory.

#include "ops/attention.h"

namespace viaduct {

/// Checks offsets, diagonal, window, cap and dropout of a problem with these numbers of queries and
/// keys.
void check_attention_problem(std::string_view op, const AttentionProblem& problem, int64_t queries,
                             int64_t keys);
/// Checks for f32 (f64 for f64) [N, T], contiguous, with the N and T of a q or out [T, N, …].
void check_per_query(std::string_view op, std::string_view argument, const Tensor& tensor,
                     const Tensor& q);

}  // namespace viaduct
