#include "comm/thread/joint_work.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

bool reduces(const CommRequest& request) {
  return request.collective == Collective::all_reduce ||
         request.collective == Collective::reduce_scatter;
}

const char* read_address(const CommRequest& request) {
  return static_cast<const char*>(request.in.raw());
}

char* write_address(const CommRequest& request) {
  return static_cast<char*>(request.out.raw());
}

int64_t row_bytes(const Tensor& tensor) {
  return tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
}

/// What rank `to` gets of each rank lies one after the other in its output; calls
/// f(from, bytes, where they begin in the input of `from`) in that order.
template <class F>
void for_each_source(Requests requests, size_t to, F&& f) {
  const CommRequest& mine = *requests[to];
  switch (mine.collective) {
    case Collective::all_gather:
      for (size_t from = 0; from < requests.size(); ++from) f(from, mine.in.bytes(), int64_t{0});
      return;
    case Collective::all_to_all:
      for (size_t from = 0; from < requests.size(); ++from) {
        int64_t rows_before = 0;
        for (size_t rank = 0; rank < to; ++rank) rows_before += requests[from]->send_rows[rank];
        const int64_t row = row_bytes(mine.out);
        f(from, mine.receive_rows[from] * row, rows_before * row);
      }
      return;
    case Collective::broadcast:
      return f(static_cast<size_t>(mine.peer), mine.out.bytes(), int64_t{0});
    default:  // a message: the sender comes first
      return f(size_t{0}, mine.out.bytes(), int64_t{0});
  }
}

/// Bytes that rank `to` gets.
int64_t bytes_to(Requests requests, size_t to) {
  const CommRequest& mine = *requests[to];
  if (mine.collective == Collective::broadcast && static_cast<int>(to) == mine.peer) return 0;
  return mine.out.defined() ? mine.out.bytes() : 0;
}

/// The bytes [begin, end) of the output of rank `to`.
void copy_to(Requests requests, size_t to, int64_t begin, int64_t end) {
  int64_t at = 0;
  for_each_source(requests, to, [&](size_t from, int64_t bytes, int64_t offset) {
    const int64_t first = std::max(begin, at), last = std::min(end, at + bytes);
    if (first < last) {
      char* target = write_address(*requests[to]) + first;
      const char* source = read_address(*requests[from]) + offset + (first - at);
      if (target != source) std::memcpy(target, source, static_cast<size_t>(last - first));
    }
    at += bytes;
  });
}

/// The elements [begin, end) of every rank's input from its byte `offset` on, into `out`.
void reduce_to(Requests requests, int64_t offset, int64_t begin, int64_t end, char* out) {
  const int64_t element = dtype_bytes(requests[0]->in.dtype());
  std::vector<const std::byte*> sources;
  for (const CommRequest* request : requests)
    sources.push_back(
        reinterpret_cast<const std::byte*>(read_address(*request) + offset + begin * element));
  reduce_in_rank_order(requests[0]->in.dtype(), requests[0]->op, sources,
                       reinterpret_cast<std::byte*>(out + begin * element), end - begin);
}

void reduce_everywhere(Requests requests, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 4096;  // still in the cache when it is copied
  const int64_t element = dtype_bytes(requests[0]->in.dtype());
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t next = std::min(at + kBlock, end);
    reduce_to(requests, 0, at, next, write_address(*requests[0]));
    for (const CommRequest* request : requests.subspan(1))
      std::memcpy(write_address(*request) + at * element,
                  write_address(*requests[0]) + at * element,
                  static_cast<size_t>((next - at) * element));
  }
}

void reduce_for(Requests requests, size_t to, int64_t begin, int64_t end) {
  const int64_t offset = static_cast<int64_t>(to) * requests[to]->out.bytes();
  reduce_to(requests, offset, begin, end, write_address(*requests[to]));
}

int64_t units_to(Requests requests, size_t to) {
  return requests[0]->collective == Collective::reduce_scatter ? requests[to]->out.elements()
                                                               : bytes_to(requests, to);
}

std::string mismatch_of_rows(Requests requests) {
  for (size_t from = 0; from < requests.size(); ++from) {
    for (size_t to = 0; to < requests.size(); ++to) {
      const CommRequest &sender = *requests[from], &receiver = *requests[to];
      if (sender.send_rows[to] != receiver.receive_rows[from])
        return fmt::format("rank {} sends {} rows to rank {}, which expects {}", from,
                           sender.send_rows[to], to, receiver.receive_rows[from]);
      if (sender.send_rows[to] > 0 && row_bytes(sender.in) != row_bytes(receiver.out))
        return fmt::format("rank {} sends rows of {} bytes to rank {}, which expects {}", from,
                           row_bytes(sender.in), to, row_bytes(receiver.out));
    }
  }
  return {};
}

bool fits(const CommRequest& a, const CommRequest& b) {
  if (a.collective == Collective::send)
    return a.in.dtype() == b.out.dtype() && a.in.elements() == b.out.elements();
  if (a.collective != b.collective || a.in.dtype() != b.in.dtype()) return false;
  if (a.collective == Collective::all_to_all) return true;
  return a.in.shape() == b.in.shape() && a.peer == b.peer && (!reduces(a) || a.op == b.op);
}

}  // namespace

std::string describe(const CommRequest& request) {
  std::string text{collective_name(request.collective)};
  if (reduces(request)) {
    const bool max = request.op == ReduceOp::max;
    text += max ? " (max)" : request.op == ReduceOp::average ? " (average)" : " (sum)";
  }
  if (request.collective == Collective::broadcast) text += fmt::format(" from {}", request.peer);
  const Tensor& tensor = request.in.defined() ? request.in : request.out;
  if (tensor.defined()) text += " of " + describe(tensor);
  return text;
}

std::string mismatch(Requests requests) {
  for (size_t rank = 1; rank < requests.size(); ++rank) {
    if (fits(*requests[0], *requests[rank])) continue;
    if (requests[0]->collective == Collective::send)
      return fmt::format("{} meets {}", describe(*requests[0]), describe(*requests[rank]));
    return fmt::format("rank 0 calls {}, rank {} calls {}", describe(*requests[0]), rank,
                       describe(*requests[rank]));
  }
  if (requests[0]->collective == Collective::all_to_all) return mismatch_of_rows(requests);
  return {};
}

int64_t work_units(Requests requests) {
  if (requests[0]->collective == Collective::barrier) return 0;
  if (requests[0]->collective == Collective::all_reduce) return requests[0]->in.elements();
  int64_t units = 0;
  for (size_t to = 0; to < requests.size(); ++to) units += units_to(requests, to);
  return units;
}

void do_work(Requests requests, int64_t begin, int64_t end) noexcept {
  if (requests[0]->collective == Collective::all_reduce)
    return reduce_everywhere(requests, begin, end);
  int64_t at = 0;
  for (size_t to = 0; to < requests.size(); ++to) {
    const int64_t units = units_to(requests, to);
    const int64_t first = std::max(begin - at, int64_t{0}), last = std::min(end - at, units);
    if (first < last) {
      if (requests[0]->collective == Collective::reduce_scatter)
        reduce_for(requests, to, first, last);
      else
        copy_to(requests, to, first, last);
    }
    at += units;
  }
}

}  // namespace viaduct
