#pragma once
// Attention with linear biases, ALiBi (Press, Smith, Lewis 2022, arXiv 2108.12409, section 3): to
// the score of head h, query i and key j the slope m_h · (j − i) is added, in place of positions in
// the stream. What all scores of a query have in common changes no softmax, so m_h · j is the same.
//
// The sum is made by the product of queries and keys: both get kLinearBiasDims more dims, the
// queries the slope of their head over the factor of scores, the keys their position. Any kernel,
// and any exchange between ranks, then has the bias, at the price of these dims. In 16 bits they
// are exact enough: positions are two digits of base 256, exact in each format, and slopes the sum
// of three parts, each the rounded rest of those before.

#include <cstdint>
#include <vector>

#include "nn/context.h"
#include "nn/context_parallel/ring_attention.h"

namespace viaduct {

inline constexpr int64_t kLinearBiasDims = 8;
/// Positions of two digits.
inline constexpr int64_t kMostBiasedPositions = 1 << 16;

/// The slope of each of `heads` heads. For a power of two 2^(−b · k / heads), k = 1, 2, …, with b
/// the largest exponent (8 in the paper); else those of the next power c below, and of 2 c every
/// second one from the first on.
std::vector<double> linear_bias_slopes(int64_t heads, double largest_exponent);

/// The dims in the format of activations.
struct LinearBiasTables {
  Tensor slopes;     // [N, kLinearBiasDims], of this rank's heads
  Tensor positions;  // [P, kLinearBiasDims], or [P, K · kLinearBiasDims] where heads of keys differ
};
/// `slopes`: of this rank's heads; `scale`: the factor of scores. ConfigError beyond
/// kMostBiasedPositions.
LinearBiasTables make_linear_bias_tables(Device& device, const std::vector<double>& slopes,
                                         double scale, int64_t positions, DType dtype);

/// The biases as Falcon's code rounds them: slopes to BF16, positions to BF16, and their products.
/// These are no product of a slope and a position any more, so each head of keys has the biases of
/// its heads of queries, which choose theirs. They are added before the factor of scores.
/// ConfigError beyond kLinearBiasDims heads of queries for one of keys.
LinearBiasTables make_rounded_bias_tables(Device& device, const std::vector<double>& slopes,
                                          int64_t kv_heads, int64_t positions, DType dtype);

/// New heads with the dims: q [T, N, D + kLinearBiasDims], k [T, K, D + kLinearBiasDims], v alone
/// in its memory. `positions`: i32 [T].
AttentionHeads add_linear_bias(RankContext& context, const LinearBiasTables& tables,
                               const Tensor& positions, const AttentionHeads& heads, MemoryTag tag);
/// The gradients of the heads without them.
AttentionHeads without_linear_bias(const AttentionHeads& gradients);

}  // namespace viaduct
