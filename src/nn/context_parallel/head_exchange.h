#pragma once
// All-to-all of tokens for heads: before it a rank has all heads of some tokens, after it some
// heads of all tokens of the group (DeepSpeed-Ulysses, Jacobs et al. 2023). In a group of one rank
// nothing is copied.

#include <functional>
#include <vector>

#include "nn/context.h"
#include "nn/context_parallel/layout.h"

namespace viaduct {

class HeadExchange {
 public:
  /// Over `group`, whose ranks' tokens `layout` orders. Both must outlive this object.
  HeadExchange(OpContext& context, Communicator& group, const AttentionLayout& layout)
      : context_(context), group_(group), layout_(layout) {}

  /// Each [T, N, D] → [I, N / ranks, D], in document order. ConfigError if a number of heads does
  /// not divide.
  std::vector<Tensor> to_heads(const std::vector<Tensor>& tensors,
                               MemoryTag tag = MemoryTag::activations) const;
  /// The inverse.
  std::vector<Tensor> to_tokens(const std::vector<Tensor>& tensors, MemoryTag tag) const;
  /// Statistics of each query, [N, T] → [N / ranks, I].
  Tensor per_query_to_heads(const Tensor& tensor) const;

 private:
  using Step = std::function<Tensor(const Tensor&)>;
  /// Each tensor packed, exchanged by an all-to-all of equal parts and unpacked; all exchanges
  /// begin before the first is waited for.
  std::vector<Tensor> exchanged(const std::vector<Tensor>& tensors, const Step& pack,
                                const Step& unpack) const;
  std::vector<int64_t> rows_each(int64_t rows) const;

  OpContext& context_;
  Communicator& group_;
  const AttentionLayout& layout_;
};

/// out[i] = x[order[i]] for rows [rows, …].
Tensor gather_rows(OpContext& context, const Tensor& x, const Tensor& order,
                   MemoryTag tag = MemoryTag::activations);

}  // namespace viaduct
