#include "nn/moe/token_exchange.h"

#include <algorithm>
#include <numeric>

#include "nn/moe/taken_rows.h"
#include "nn/moe/wire_format.h"
#include "ops/elementwise.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// Counts [2, n, E'] of rank `rank` where all ranks choose every expert of every rank equally
/// often, as far as whole numbers allow: the assumption of a dry run.
void fill_evenly(const MoeConfig& moe, const Tensor& counts, int64_t rows, int64_t rank) {
  const int64_t n = counts.dim(1) * counts.dim(2), here = counts.dim(2);
  const auto of = [&](int64_t i) { return moe.padded((i + 1) * rows / n - i * rows / n); };
  auto* values = counts.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    values[i] = of(i);
    values[n + i] = of(rank * here + i % here);
  }
}

/// Counts i64 [2, n, E'] from the device, one read in the record; `rows` of them are this rank's.
Tensor read_counts(Device& device, const MoeConfig& moe, const Tensor& counts, int64_t rows,
                   int64_t rank) {
  if (device.record() != nullptr) {
    device.record()->host_read("rows of experts", device.record_event(kComputeStream).position);
  }
  Tensor host = host_tensor(DType::i64, counts.shape());
  if (device.executes()) {
    device.copy_to_host(counts, host);
  } else {
    fill_evenly(moe, host, rows, rank);
  }
  return host;
}

std::vector<int64_t> row_numbers(const Tensor& exchange, int64_t direction) {
  const int64_t n = exchange.dim(1);
  const int64_t* begin = exchange.data<int64_t>() + direction * n;
  return {begin, begin + n};
}

int64_t total(const std::vector<int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

/// The exchange takes rows by number, and no copies in its order are made.
bool goes_by_number(const RankContext& context, const ExpertPlace& place) {
  return place.fused && place.group(context).takes_row_order();
}

/// The parts of `rows` that are sent separately: values, and scales if there are any.
std::vector<Tensor> parts_of(const Operand& rows) {
  std::vector<Tensor> parts{rows.values()};
  if (rows.scales()) parts.push_back(rows.scales());
  return parts;
}

}  // namespace

int64_t rows_leaving(const ExchangeOrder& order) {
  return total(row_numbers(order.rows, 0));
}

ExchangeOrder agree_on_rows(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                            const Tensor& counts, int64_t rows, const Tensor& offsets,
                            MemoryTag tag) {
  const int64_t n = place.ranks, here = place.experts_here(moe);
  Tensor arriving = counts.view({n, here}), host;
  if (moe.pad_to_capacity) {
    // Each rank sends each expert the same number of rows, whatever its router chose: nothing has
    // to be exchanged or read.
    host = host_tensor(DType::i64, {2, n, here});
    std::fill_n(host.data<int64_t>(), host.elements(), rows / (n * here));
  } else {
    Communicator& group = place.group(context);
    const Tensor both = context.ops.allocate(DType::i64, {2, n, here}, MemoryTag::workspace);
    copy(context.ops, {counts, both.select(0).view({n * here})});
    const std::vector<int64_t> one_each(static_cast<size_t>(n), 1);
    group.all_to_all(both.select(0), both.select(1), one_each, one_each).wait();
    host = read_counts(context.ops.device, moe, both, rows, group.rank());
    arriving = both.select(1);
  }
  int64_t rows_here = 0;
  ExchangeOrder order{host_tensor(DType::i64, {2, n}), {}};
  for (int64_t i = 0; i < 2 * n; ++i) {
    const int64_t* row = host.data<int64_t>() + i * here;
    order.rows.data<int64_t>()[i] = std::accumulate(row, row + here, int64_t{0});
    if (i >= n) rows_here += order.rows.data<int64_t>()[i];
  }
  order.arrival = context.ops.allocate(DType::i32, {2, rows_here}, tag);
  arrival_order(context.ops, {arriving, order.arrival.select(0), order.arrival.select(1), offsets});
  return order;
}

RowsUnderWay begin_to_experts(RankContext& context, const ExpertPlace& place,
                              const ExchangeOrder& order, const Operand& rows, MemoryTag tag,
                              const Tensor& from) {
  RowsUnderWay sending;
  sending.tag_ = tag;
  if (place.ranks == 1) {
    const Tensor here = from_wire(context, rows, from ? MemoryTag::activations : tag);
    sending.sent_ = sending.received_ = from ? take_rows(context, here, from, tag) : here;
    return sending;
  }
  const std::vector<int64_t> sent = row_numbers(order.rows, 0), got = row_numbers(order.rows, 1);
  const bool by_number = goes_by_number(context, place), taken = from && !by_number;
  const Operand leaving = taken ? take_rows(context, rows, from, MemoryTag::activations) : rows;
  // Behind the rows that leave are those of dropped choices.
  if (by_number) {
    sending.from_ = from ? from.slice(0, 0, total(sent)) : from;
    sending.to_ = order.arrival.select(1);
  } else {
    sending.order_ = order.arrival.select(0);
  }
  sending.sent_ = sending.from_ ? leaving : leaving.slice(0, 0, total(sent));
  // Rows are made of what arrives, except where it is put in place by the exchange.
  const bool final = by_number && rows.form().plain();
  sending.received_ = wire_room(context, rows, total(got), final ? tag : MemoryTag::activations);
  const std::vector<Tensor> leave = parts_of(sending.sent_), arrive = parts_of(sending.received_);
  for (size_t i = 0; i < leave.size(); ++i)
    sending.handles_.push_back(place.group(context).all_to_all(leave[i], arrive[i], sent, got,
                                                               {sending.from_, sending.to_}));
  return sending;
}

RowsUnderWay begin_home(RankContext& context, const ExpertPlace& place, const ExchangeOrder& order,
                        const Tensor& rows) {
  RowsUnderWay sending;
  sending.sent_ = sending.received_ = rows;
  if (place.ranks == 1) return sending;
  const std::vector<int64_t> sent = row_numbers(order.rows, 1), got = row_numbers(order.rows, 0);
  const Tensor back = order.arrival.select(1);
  if (goes_by_number(context, place))
    sending.from_ = back;
  else
    sending.sent_ = take_rows(context, rows, back, MemoryTag::activations);
  const Tensor out =
      context.ops.allocate(rows.dtype(), {total(got), rows.dim(1)}, MemoryTag::activations);
  sending.received_ = out;
  sending.handles_.push_back(
      place.group(context).all_to_all(sending.sent_.tensor(), out, sent, got, {sending.from_, {}}));
  return sending;
}

Tensor RowsUnderWay::finish(RankContext& context) {
  for (CommHandle& handle : handles_) handle.wait();
  const Tensor rows = from_wire(context, received_, order_ ? MemoryTag::activations : tag_);
  return order_ ? take_rows(context, rows, order_, tag_) : rows;
}

}  // namespace viaduct
