#pragma once
// Converts an attention problem to the arguments of its kernels.

#include "ops/attention.h"
#include "ops/cuda/kernels/attention.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {

/// [T, N, D] with dense rows.
Heads heads_of(const Tensor& x);

/// Whether every head's row may be copied by 16 bytes, and its width too.
bool is_wide_heads(const Tensor& x);

/// Documents, mask, scale and dropout of a problem with these numbers of queries and keys; the
/// fields of heads are not set.
AttentionProblemView document_view(std::string_view op, const AttentionProblem& problem,
                                   int64_t queries, int64_t keys);

}  // namespace viaduct::cuda
