#include "nn/moe/token_exchange.h"

#include <numeric>

#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// Counts [2, n, E'] of rank `rank` where all ranks choose every expert of every rank equally
/// often, as far as whole numbers allow: what a dry run takes the run to be like.
void fill_evenly(const Tensor& counts, int64_t rows, int64_t rank) {
  const int64_t n = counts.dim(1) * counts.dim(2), here = counts.dim(2);
  const auto of = [&](int64_t i) { return (i + 1) * rows / n - i * rows / n; };
  auto* values = counts.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    values[i] = of(i);
    values[n + i] = of(rank * here + i % here);
  }
}

/// Counts i64 [2, n, E'] from the device, one read in the record; `rows` of them are this rank's.
Tensor read_counts(Device& device, const Tensor& counts, int64_t rows, int64_t rank) {
  if (device.record() != nullptr) {
    device.record()->host_read("rows of experts", device.record_event(kComputeStream).position);
  }
  Tensor host = host_tensor(DType::i64, counts.shape());
  if (device.executes()) {
    device.copy_to_host(counts, host);
  } else {
    fill_evenly(host, rows, rank);
  }
  return host;
}

std::vector<int64_t> row_numbers(const Tensor& exchange, int64_t direction) {
  const int64_t n = exchange.dim(1);
  const int64_t* begin = exchange.data<int64_t>() + direction * n;
  return {begin, begin + n};
}

/// out[r] = rows[index[r]].
Tensor reorder(RankContext& context, const Tensor& rows, const Tensor& index, MemoryTag tag) {
  const Tensor out = context.ops.allocate(rows.dtype(), {index.dim(0), rows.dim(1)}, tag);
  embedding_forward(context.ops, {index, rows, out});
  return out;
}

/// An exchange that has begun, and where its rows will be.
struct Exchange {
  CommHandle handle;
  Tensor received;
};

Exchange exchange(RankContext& context, const ExpertPlace& place, const Tensor& rows,
                  std::vector<int64_t> sent, std::vector<int64_t> received, MemoryTag tag) {
  const int64_t count = std::accumulate(received.begin(), received.end(), int64_t{0});
  const int64_t leaving = std::accumulate(sent.begin(), sent.end(), int64_t{0});
  const Tensor out = context.ops.allocate(rows.dtype(), {count, rows.dim(1)}, tag);
  // Behind the rows that leave are those of dropped choices.
  return {place.group(context).all_to_all(rows.slice(0, 0, leaving), out, std::move(sent),
                                          std::move(received)),
          out};
}

}  // namespace

ExchangeOrder agree_on_rows(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                            const Tensor& counts, int64_t rows, const Tensor& offsets,
                            MemoryTag tag) {
  Communicator& group = place.group(context);
  const int64_t n = place.ranks, here = place.experts_here(moe);
  const Tensor both = context.ops.allocate(DType::i64, {2, n, here}, MemoryTag::workspace);
  copy(context.ops, {counts, both.select(0).view({n * here})});
  const std::vector<int64_t> one_each(static_cast<size_t>(n), 1);
  group.all_to_all(both.select(0), both.select(1), one_each, one_each).wait();
  int64_t rows_here = 0;
  const Tensor host = read_counts(context.ops.device, both, rows, group.rank());
  ExchangeOrder order{host_tensor(DType::i64, {2, n}), {}};
  for (int64_t i = 0; i < 2 * n; ++i) {
    const int64_t* row = host.data<int64_t>() + i * here;
    order.rows.data<int64_t>()[i] = std::accumulate(row, row + here, int64_t{0});
    if (i >= n) rows_here += order.rows.data<int64_t>()[i];
  }
  order.arrival = context.ops.allocate(DType::i32, {2, rows_here}, tag);
  arrival_order(context.ops,
                {both.select(1), order.arrival.select(0), order.arrival.select(1), offsets});
  return order;
}

RowsUnderWay begin_to_experts(RankContext& context, const ExpertPlace& place,
                              const ExchangeOrder& order, const Tensor& rows, MemoryTag tag) {
  RowsUnderWay sending;
  sending.sent_ = sending.received_ = rows;
  if (place.ranks == 1) return sending;
  Exchange begun = exchange(context, place, rows, row_numbers(order.rows, 0),
                            row_numbers(order.rows, 1), MemoryTag::activations);
  sending.handle_ = std::move(begun.handle);
  sending.received_ = begun.received;
  sending.order_ = order.arrival.select(0);
  sending.tag_ = tag;
  return sending;
}

RowsUnderWay begin_home(RankContext& context, const ExpertPlace& place, const ExchangeOrder& order,
                        const Tensor& rows, MemoryTag tag) {
  RowsUnderWay sending;
  sending.sent_ = sending.received_ = rows;
  if (place.ranks == 1) return sending;
  sending.sent_ = reorder(context, rows, order.arrival.select(1), MemoryTag::activations);
  Exchange begun = exchange(context, place, sending.sent_, row_numbers(order.rows, 1),
                            row_numbers(order.rows, 0), tag);
  sending.handle_ = std::move(begun.handle);
  sending.received_ = begun.received;
  return sending;
}

Tensor RowsUnderWay::finish(RankContext& context) {
  handle_.wait();
  return order_ ? reorder(context, received_, order_, tag_) : received_;
}

Tensor send_to_experts(RankContext& context, const ExpertPlace& place, const ExchangeOrder& order,
                       const Tensor& rows, MemoryTag tag) {
  return begin_to_experts(context, place, order, rows, tag).finish(context);
}

Tensor send_home(RankContext& context, const ExpertPlace& place, const ExchangeOrder& order,
                 const Tensor& rows, MemoryTag tag) {
  return begin_home(context, place, order, rows, tag).finish(context);
}

}  // namespace viaduct
