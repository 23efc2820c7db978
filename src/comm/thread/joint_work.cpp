#include "comm/thread/joint_work.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

int64_t row_bytes(const Tensor& tensor) {
  return tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
}

/// The parts that rank `to` gets from each rank are consecutive in its output; calls f(from, bytes,
/// offset in the input of `from`) in that order.
template <class F>
void for_each_source(Asks asks, size_t to, F&& f) {
  const Ask& mine = asks[to];
  switch (mine.collective) {
    case Collective::all_gather:
      for (size_t from = 0; from < asks.size(); ++from) f(from, mine.in_bytes, int64_t{0});
      return;
    case Collective::all_to_all:
      for (size_t from = 0; from < asks.size(); ++from) {
        int64_t rows_before = 0;
        for (size_t rank = 0; rank < to; ++rank) rows_before += asks[from].request->send_rows[rank];
        const int64_t row = row_bytes(mine.request->out);
        f(from, mine.request->receive_rows[from] * row, rows_before * row);
      }
      return;
    case Collective::broadcast:
      return f(static_cast<size_t>(mine.peer), mine.out_bytes, int64_t{0});
    default:  // a message: the sender is asks[0]
      return f(size_t{0}, mine.out_bytes, int64_t{0});
  }
}

int64_t ordered(const Tensor& order, int64_t row) {
  return order ? order.data<int32_t>()[row] : row;
}

/// The bytes [begin, end) of what rank `to` gets in an all-to-all, in the order in which it
/// arrives: row by row, from and to the places that the ranks' orders name.
void copy_rows_to(Asks asks, size_t to, int64_t begin, int64_t end) {
  const CommRequest& mine = *asks[to].request;
  const int64_t bytes = row_bytes(mine.out);
  int64_t arrived = 0;
  for (size_t from = 0; from < asks.size(); ++from) {
    const CommRequest& sender = *asks[from].request;
    int64_t leaves = 0;
    for (size_t rank = 0; rank < to; ++rank) leaves += sender.send_rows[rank];
    const int64_t rows = mine.receive_rows[from];
    const int64_t first = std::max(begin, arrived * bytes),
                  last = std::min(end, (arrived + rows) * bytes);
    for (int64_t at = first; at < last;) {
      const int64_t row = at / bytes, inside = at % bytes;
      const int64_t count = std::min(last - at, bytes - inside);
      const int64_t source = ordered(sender.order.from, leaves + row - arrived);
      const int64_t target = ordered(mine.order.to, row);
      std::memcpy(asks[to].out + target * bytes + inside, asks[from].in + source * bytes + inside,
                  static_cast<size_t>(count));
      at += count;
    }
    arrived += rows;
  }
}

bool by_order(Asks asks) {
  return asks[0].collective == Collective::all_to_all &&
         std::any_of(asks.begin(), asks.end(), [](const Ask& ask) {
           return ask.request->order.from.defined() || ask.request->order.to.defined();
         });
}

/// The bytes [begin, end) of the output of rank `to`.
void copy_to(Asks asks, size_t to, int64_t begin, int64_t end) {
  if (by_order(asks)) return copy_rows_to(asks, to, begin, end);
  int64_t at = 0;
  for_each_source(asks, to, [&](size_t from, int64_t bytes, int64_t offset) {
    const int64_t first = std::max(begin, at), last = std::min(end, at + bytes);
    if (first < last) {
      std::byte* target = asks[to].out + first;
      const std::byte* source = asks[from].in + offset + (first - at);
      if (target != source) std::memcpy(target, source, static_cast<size_t>(last - first));
    }
    at += bytes;
  });
}

/// Addresses of all ranks, without allocating for ordinary sizes of groups.
template <class T>
class Addresses {
 public:
  template <class F>
  Addresses(Asks asks, F&& address) : size_(asks.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    for (size_t rank = 0; rank < size_; ++rank) data()[rank] = address(asks[rank]);
  }
  std::span<const T> all() { return {data(), size_}; }

 private:
  T* data() { return many_.empty() ? few_.data() : many_.data(); }

  size_t size_;
  std::array<T, 16> few_;
  std::vector<T> many_;
};

void reduce_everywhere(Asks asks, int64_t begin, int64_t end) {
  const int64_t offset = begin * dtype_bytes(asks[0].dtype);
  Addresses<const std::byte*> in(asks, [&](const Ask& ask) { return ask.in + offset; });
  Addresses<std::byte*> out(asks, [&](const Ask& ask) { return ask.out + offset; });
  reduce_in_rank_order(asks[0].dtype, asks[0].op, in.all(), out.all(), end - begin);
}

void reduce_for(Asks asks, size_t to, int64_t begin, int64_t end) {
  const int64_t offset = begin * dtype_bytes(asks[0].dtype);
  const int64_t run = static_cast<int64_t>(to) * asks[to].out_bytes;
  Addresses<const std::byte*> in(asks, [&](const Ask& ask) { return ask.in + run + offset; });
  reduce_in_rank_order(asks[0].dtype, asks[0].op, in.all(), asks[to].out + offset, end - begin);
}

int64_t units_to(Asks asks, size_t to) {
  const Ask& mine = asks[to];
  if (mine.collective == Collective::reduce_scatter)
    return mine.out_bytes / dtype_bytes(mine.dtype);
  if (mine.collective == Collective::broadcast && static_cast<int>(to) == mine.peer) return 0;
  return mine.out_bytes;
}

std::string mismatch_of_rows(Asks asks) {
  for (size_t from = 0; from < asks.size(); ++from) {
    for (size_t to = 0; to < asks.size(); ++to) {
      const CommRequest &sender = *asks[from].request, &receiver = *asks[to].request;
      if (sender.send_rows[to] != receiver.receive_rows[from])
        return fmt::format("rank {} sends {} to rank {}, which expects {}", from,
                           counted(sender.send_rows[to], "row"), to, receiver.receive_rows[from]);
      if (sender.send_rows[to] > 0 && row_bytes(sender.in) != row_bytes(receiver.out))
        return fmt::format("rank {} sends rows of {} bytes to rank {}, which expects {}", from,
                           row_bytes(sender.in), to, row_bytes(receiver.out));
    }
  }
  return {};
}

bool fits(const Ask& a, const Ask& b) {
  const bool equal = a.dtype == b.dtype && a.shape == b.shape;
  if (a.collective == Collective::send) return equal && a.in_bytes == b.out_bytes;
  if (a.collective != b.collective) return false;
  if (a.collective == Collective::all_to_all) return a.dtype == b.dtype;
  return equal && a.in_bytes == b.in_bytes && a.peer == b.peer &&
         (!reduces(a.collective) || a.op == b.op);
}

uint32_t hash_of(const Shape& shape) {
  uint64_t hash = 0;
  for (const int64_t dim : shape)
    hash = (hash ^ (static_cast<uint64_t>(dim) + 1)) * 0x9e3779b97f4a7c15ull;
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

Ask::Ask(const CommRequest& asked)
    : collective(asked.collective), op(asked.op), peer(asked.peer), request(&asked) {
  const bool message = is_message(collective);
  const Tensor& main = asked.in.defined() ? asked.in : asked.out;
  if (main.defined()) {
    dtype = main.dtype();
    if (!message) shape = hash_of(main.shape());
  }
  if (asked.in.defined()) {
    in = static_cast<const std::byte*>(asked.in.raw());
    in_bytes = asked.in.bytes();
  }
  if (asked.out.defined()) {
    out = static_cast<std::byte*>(asked.out.raw());
    out_bytes = asked.out.bytes();
  }
}

std::string describe(const CommRequest& request) {
  std::string text{choice_name(request.collective)};
  if (reduces(request.collective)) {
    const bool max = request.op == ReduceOp::max;
    text += max ? " (max)" : request.op == ReduceOp::average ? " (average)" : " (sum)";
  }
  if (request.collective == Collective::broadcast) text += fmt::format(" from {}", request.peer);
  const Tensor& tensor = request.in.defined() ? request.in : request.out;
  if (tensor.defined()) text += " of " + describe(tensor);
  return text;
}

std::string mismatch(Asks asks) {
  for (size_t rank = 1; rank < asks.size(); ++rank) {
    if (fits(asks[0], asks[rank])) continue;
    const std::string first = describe(*asks[0].request), other = describe(*asks[rank].request);
    if (asks[0].collective == Collective::send) return fmt::format("{} meets {}", first, other);
    return fmt::format("rank 0 calls {}, rank {} calls {}", first, rank, other);
  }
  if (asks[0].collective == Collective::all_to_all) return mismatch_of_rows(asks);
  return {};
}

int64_t work_units(Asks asks) {
  if (asks[0].collective == Collective::barrier) return 0;
  if (asks[0].collective == Collective::all_reduce)
    return asks[0].in_bytes / dtype_bytes(asks[0].dtype);
  int64_t units = 0;
  for (size_t to = 0; to < asks.size(); ++to) units += units_to(asks, to);
  return units;
}

void do_work(Asks asks, int64_t begin, int64_t end) noexcept {
  if (asks[0].collective == Collective::all_reduce) return reduce_everywhere(asks, begin, end);
  int64_t at = 0;
  for (size_t to = 0; to < asks.size(); ++to) {
    const int64_t units = units_to(asks, to);
    const int64_t first = std::max(begin - at, int64_t{0}), last = std::min(end - at, units);
    if (first < last) {
      if (asks[0].collective == Collective::reduce_scatter)
        reduce_for(asks, to, first, last);
      else
        copy_to(asks, to, first, last);
    }
    at += units;
  }
}

}  // namespace viaduct
