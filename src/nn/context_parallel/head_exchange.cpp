#include "nn/context_parallel/head_exchange.h"

#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace viaduct {
namespace {

Tensor scratch(OpContext& context, DType dtype, const Shape& shape) {
  return context.allocate(dtype, shape, MemoryTag::activations);
}

}  // namespace

Tensor gather_rows(OpContext& context, const Tensor& x, const Tensor& order, MemoryTag tag) {
  const int64_t rows = x.dim(0), width = rows == 0 ? 0 : x.elements() / rows;
  Tensor out = context.allocate(x.dtype(), x.shape(), tag);
  embedding_forward(context, {order, x.view({rows, width}), out.view({rows, width})});
  return out;
}

std::vector<int64_t> HeadExchange::rows_each(int64_t rows) const {
  return std::vector<int64_t>(static_cast<size_t>(group_.size()), rows);
}

std::vector<Tensor> HeadExchange::exchanged(const std::vector<Tensor>& tensors, const Step& pack,
                                            const Step& unpack) const {
  if (group_.size() == 1) return tensors;
  std::vector<Tensor> sent, received;
  std::vector<CommHandle> handles;
  for (const Tensor& x : tensors) {
    sent.push_back(pack(x));
    received.push_back(scratch(context_, x.dtype(), sent.back().shape()));
    const auto each = rows_each(sent.back().dim(0) / group_.size());
    handles.push_back(group_.all_to_all(sent.back(), received.back(), each, each));
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    handles[i].wait();
    out.push_back(unpack(received[i]));
  }
  return out;
}

std::vector<Tensor> HeadExchange::to_heads(const std::vector<Tensor>& tensors,
                                           MemoryTag tag) const {
  const int64_t ranks = group_.size();
  const auto pack = [&](const Tensor& x) {
    const int64_t tokens = x.dim(0), heads = x.dim(1) / ranks, width = x.dim(2);
    VIADUCT_CHECK(ConfigError, x.dim(1) % ranks == 0,
                  "a2a over {}: {} heads held by a tensor rank do not divide over {} ranks",
                  group_.name(), x.dim(1), ranks);
    // x [T, N, D] → packed [ranks, T, N / ranks, D]
    const Tensor packed = scratch(context_, x.dtype(), {ranks, tokens, heads, width});
    copy(context_, {x.view({tokens, ranks, heads, width}).transposed(0, 1), packed});
    return packed.view({ranks * tokens, heads, width});
  };
  return exchanged(tensors, pack, [&](const Tensor& received) {
    return gather_rows(context_, received, layout_.joined_order, tag);
  });
}

std::vector<Tensor> HeadExchange::to_tokens(const std::vector<Tensor>& tensors,
                                            MemoryTag tag) const {
  const auto pack = [&](const Tensor& x) {
    return gather_rows(context_, x, layout_.parted_order);  // [I, N / ranks, D]
  };
  return exchanged(tensors, pack, [&](const Tensor& received) {
    const int64_t ranks = group_.size(), tokens = received.dim(0) / ranks, heads = received.dim(1),
                  width = received.dim(2);
    const Tensor whole =  // [T, N, D]
        context_.allocate(received.dtype(), {tokens, ranks * heads, width}, tag);
    copy(context_, {received.view({ranks, tokens, heads, width}).transposed(0, 1),
                    whole.view({tokens, ranks, heads, width})});
    return whole;
  });
}

Tensor HeadExchange::per_query_to_heads(const Tensor& x) const {
  if (group_.size() == 1) return x;
  const int64_t ranks = group_.size(), heads = x.dim(0) / ranks, tokens = x.dim(1);
  const Tensor received = scratch(context_, x.dtype(), {ranks * heads, tokens});
  group_.all_to_all(x, received, rows_each(heads), rows_each(heads)).wait();
  const Tensor rows = scratch(context_, x.dtype(), {ranks, tokens, heads});
  copy(context_, {received.view({ranks, heads, tokens}).transposed(1, 2), rows});
  const Tensor joined =
      gather_rows(context_, rows.view({ranks * tokens, heads}), layout_.joined_order);
  const Tensor out = scratch(context_, x.dtype(), {heads, ranks * tokens});
  copy(context_, {joined.transposed(0, 1), out});
  return out;
}

}  // namespace viaduct
