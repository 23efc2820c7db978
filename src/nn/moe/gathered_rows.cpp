#include "nn/moe/gathered_rows.h"

#include <numeric>

#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// The sum of `counts` i64 [E'], one read in the record. Where nothing is executed, that of equally
/// many of `choices` for each expert, as far as whole numbers allow, of experts from `first` on.
int64_t read_rows(Device& device, const Tensor& counts, int64_t choices, int64_t first,
                  int64_t experts) {
  if (device.record() != nullptr) {
    device.record()->host_read("rows of experts", device.record_event(kComputeStream).position);
  }
  const int64_t here = counts.dim(0);
  if (!device.executes()) return (first + here) * choices / experts - first * choices / experts;
  const Tensor host = host_tensor(DType::i64, counts.shape());
  device.copy_to_host(counts, host);
  return std::accumulate(host.data<int64_t>(), host.data<int64_t>() + here, int64_t{0});
}

Shape with_rows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

}  // namespace

PendingTokens gather_tokens(RankContext& context, const ExpertPlace& place, const Tensor& own,
                            MemoryTag tag) {
  const Tensor all =
      context.ops.allocate(own.dtype(), with_rows(own.shape(), place.ranks * own.dim(0)), tag);
  return {place.group(context).all_gather(own, all), all};
}

PendingTokens sum_over_ranks(RankContext& context, const ExpertPlace& place, const Tensor& all) {
  const Tensor own = context.ops.allocate(
      all.dtype(), with_rows(all.shape(), all.dim(0) / place.ranks), MemoryTag::activations);
  return {place.group(context).reduce_scatter(all, own), own};
}

OwnRows find_own_rows(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                      const Tensor& choice, MemoryTag tag) {
  const int64_t here = place.experts_here(moe), tokens = choice.dim(0);
  const auto integers = [&](const Shape& shape, MemoryTag of, DType dtype = DType::i32) {
    return context.ops.allocate(dtype, shape, of);
  };
  SortByExpertArgs order;
  order.choice = choice;
  order.experts_per_rank = here;
  order.first_expert = place.group(context).rank() / place.copies * here;
  if (moe.pad_to_capacity) order.rows_each = place.ranks * moe.capacity(tokens / place.ranks);
  order.token = integers({moe.pad_to_capacity ? here * order.rows_each : choice.elements()},
                         MemoryTag::activations);
  order.position = integers(choice.shape(), tag);
  order.counts = integers({here}, MemoryTag::activations, DType::i64);
  order.offsets = integers({here + 1}, tag);
  sort_by_expert(context.ops, order);
  const int64_t kept = place.ranks * kept_rows(moe, place, tokens / place.ranks) / place.copies;
  const int64_t rows = moe.pad_to_capacity ? order.token.dim(0)
                                           : read_rows(context.ops.device, order.counts, kept,
                                                       order.first_expert, moe.experts);
  return {order.token.slice(0, 0, rows), order.offsets, order.position};
}

}  // namespace viaduct
