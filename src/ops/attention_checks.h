#pragma once
// Checks that the contracts of attention share, flash-style or with its matrix in memory.

#include "ops/attention.h"

namespace viaduct {

/// Offsets, diagonal, window, cap and dropout of a problem of so many queries and keys.
void check_attention_problem(std::string_view op, const AttentionProblem& problem, int64_t queries,
                             int64_t keys);
/// f32 (f64 for f64) [N, T], contiguous; of a q or out [T, N, …].
void check_per_query(std::string_view op, std::string_view argument, const Tensor& tensor,
                     const Tensor& q);

}  // namespace viaduct
