// Operations whose messages can all be posted at once: in small groups everything but large
// reductions. And the choice between these and the algorithms of large groups.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>

#include "comm/mpi/mpi_operation.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

// All-reduces up to this size send all inputs to all ranks: one message less on the critical path.
constexpr int64_t kSmallBytes = 16 << 10;
// Open MPI sends messages of up to 4 KiB, with header, through shared memory at once; for longer
// ones the two sides first exchange two more messages. So small all-reduces are cut into pieces of
// this size.
constexpr int64_t kEagerBytes = 4000;
// In large groups: the maximum bytes of all inputs of a small all-reduce together, and of tensors
// that go whole along a tree.
constexpr int64_t kGatheredBytes = 1 << 20, kTreeBytes = 64 << 10;

struct Message {
  std::byte* data;
  int64_t bytes;
  int peer;
  bool sending;
};

/// The messages of an operation, in posting order.
class Plan {
 public:
  explicit Plan(const MpiGroup& group) : rank_(group.rank()), size_(group.size()) {}

  void send(const std::byte* data, int64_t bytes, int to) {
    messages_.push_back({const_cast<std::byte*>(data), bytes, to, true});  // only read
  }
  void receive(std::byte* data, int64_t bytes, int from) {
    messages_.push_back({data, bytes, from, false});
  }
  void copy_own(const std::byte* from, std::byte* to, int64_t bytes) {
    from_ = from, to_ = to, own_bytes_ = bytes;
  }
  /// Starts with the next higher rank, so that not all ranks send to rank 0 first.
  template <class F>
  void for_others(F f) const {
    for (int step = 1; step < size_; ++step) f((rank_ + step) % size_);
  }

  void post(Transfers& transfers, int tag) const {
    for (const Message& message : messages_) {
      if (message.sending)
        transfers.send(message.data, message.bytes, message.peer, tag);
      else
        transfers.receive(message.data, message.bytes, message.peer, tag);
    }
    if (from_ != to_ && own_bytes_ > 0) std::memmove(to_, from_, static_cast<size_t>(own_bytes_));
  }

 private:
  int rank_, size_;
  std::vector<Message> messages_;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  int64_t own_bytes_ = 0;
};

class Exchange final : public MpiOperation {
 public:
  Exchange(const MpiGroup& group, Plan plan, int tag, std::string_view what, int64_t bytes)
      : MpiOperation(group, what, bytes), plan_(std::move(plan)), tag_(tag) {}

 private:
  void post() override { plan_.post(transfers_, tag_); }

  const Plan plan_;
  const int tag_;
};

/// Every rank sends its input to all others and sums.
class SmallAllReduce final : public MpiOperation {
 public:
  SmallAllReduce(const MpiGroup& group, const Tensor& tensor, ReduceOp op, int tag,
                 Scratch& scratch)
      : MpiOperation(group, choice_name(Collective::all_reduce), tensor.bytes()),
        data_(static_cast<std::byte*>(tensor.raw())),
        bytes_(tensor.bytes()),
        elements_(tensor.elements()),
        dtype_(tensor.dtype()),
        op_(op),
        tag_(tag),
        scratch_(scratch) {}

 private:
  void post() override {
    const auto size = static_cast<size_t>(group_.size() * bytes_);
    if (scratch_.size() < size) scratch_.resize(size);
    const int own = group_.rank(), ranks = group_.size();
    for (int64_t at = 0; at < bytes_; at += kEagerBytes) {
      const int64_t piece = std::min(kEagerBytes, bytes_ - at);
      for (int step = 1; step < ranks; ++step) {
        const int rank = (own + step) % ranks;
        transfers_.receive(scratch_.data() + rank * bytes_ + at, piece, rank, tag_);
      }
    }
    for (int64_t at = 0; at < bytes_; at += kEagerBytes) {
      const int64_t piece = std::min(kEagerBytes, bytes_ - at);
      for (int step = 1; step < ranks; ++step)
        transfers_.send(data_ + at, piece, (own + step) % ranks, tag_);
    }
  }
  bool finish() override {
    const auto ranks = static_cast<size_t>(group_.size());
    std::array<const std::byte*, 16> few;
    std::vector<const std::byte*> many(ranks > few.size() ? ranks : 0);
    const std::span<const std::byte*> sources(many.empty() ? few.data() : many.data(), ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      sources[rank] = scratch_.data() + static_cast<int64_t>(rank) * bytes_;
    sources[static_cast<size_t>(group_.rank())] = data_;
    reduce_in_rank_order(dtype_, op_, sources, data_, elements_);
    return true;
  }

  std::byte* const data_;
  const int64_t bytes_, elements_;
  const DType dtype_;
  const ReduceOp op_;
  const int tag_;
  Scratch& scratch_;
};

/// Byte offsets of the ranks' rows, and the end.
std::vector<int64_t> starts(const std::vector<int64_t>& rows, const Tensor& tensor) {
  const int64_t row = tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
  std::vector<int64_t> at{0};
  for (const int64_t count : rows) at.push_back(at.back() + count * row);
  return at;
}

Plan plan_of(const MpiGroup& group, const CommRequest& request) {
  Plan plan(group);
  const Tensor &in = request.in, &out = request.out;
  const auto* from = in.defined() ? static_cast<const std::byte*>(in.raw()) : nullptr;
  auto* to = out.defined() ? static_cast<std::byte*>(out.raw()) : nullptr;
  const int own = group.rank();
  switch (request.collective) {
    case Collective::all_gather: {
      const int64_t bytes = in.bytes();
      plan.for_others([&](int rank) { plan.receive(to + rank * bytes, bytes, rank); });
      plan.for_others([&](int rank) { plan.send(from, bytes, rank); });
      plan.copy_own(from, to + own * bytes, bytes);
      break;
    }
    case Collective::all_to_all: {
      const auto sent = starts(request.send_rows, in), received = starts(request.receive_rows, out);
      const auto run = [](const std::vector<int64_t>& at, size_t rank) {
        return at[rank + 1] - at[rank];
      };
      plan.for_others([&](int peer) {
        const auto rank = static_cast<size_t>(peer);
        plan.receive(to + received[rank], run(received, rank), peer);
      });
      plan.for_others([&](int peer) {
        const auto rank = static_cast<size_t>(peer);
        plan.send(from + sent[rank], run(sent, rank), peer);
      });
      const auto rank = static_cast<size_t>(own);
      plan.copy_own(from + sent[rank], to + received[rank],
                    std::min(run(sent, rank), run(received, rank)));
      break;
    }
    case Collective::broadcast:
      if (own != request.peer)
        plan.receive(to, out.bytes(), request.peer);
      else
        plan.for_others([&](int rank) { plan.send(from, in.bytes(), rank); });
      break;
    case Collective::send:
      plan.send(from, in.bytes(), request.peer);
      break;
    case Collective::receive:
      plan.receive(to, out.bytes(), request.peer);
      break;
    default:  // barrier: an empty message from every rank
      plan.for_others([&](int rank) { plan.receive(nullptr, 0, rank); });
      plan.for_others([&](int rank) { plan.send(nullptr, 0, rank); });
  }
  return plan;
}

/// An all-to-all by an order of rows: they are packed before they leave and unpacked once they have
/// arrived, in memory of the operation.
class OrderedExchange final : public MpiOperation {
 public:
  OrderedExchange(const MpiGroup& group, const CommRequest& request, int tag)
      : MpiOperation(group, choice_name(Collective::all_to_all), request.out.bytes()),
        request_(request),
        tag_(tag) {}

 private:
  int64_t row_bytes() const {
    const Tensor& some = request_.out.dim(0) > 0 ? request_.out : request_.in;
    return some.dim(0) == 0 ? 0 : some.bytes() / some.dim(0);
  }
  void post() override {
    const int64_t row = row_bytes();
    CommRequest packed = request_;
    const auto rows = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    if (request_.order.from) {
      const int64_t count = rows(request_.send_rows);
      leaving_ = host_tensor(DType::i8, {count, row});
      const auto* from = request_.order.from.data<int32_t>();
      const auto* in = static_cast<const std::byte*>(request_.in.raw());
      for (int64_t r = 0; r < count; ++r)
        std::memcpy(place(leaving_, r), in + from[r] * row, static_cast<size_t>(row));
      packed.in = leaving_;
    }
    if (request_.order.to) {
      arriving_ = host_tensor(DType::i8, {rows(request_.receive_rows), row});
      packed.out = arriving_;
    }
    plan_of(group_, packed).post(transfers_, tag_);
  }
  bool finish() override {
    const int64_t row = row_bytes();
    auto* out = static_cast<std::byte*>(request_.out.raw());
    for (int64_t r = 0; arriving_.defined() && r < arriving_.dim(0); ++r)
      std::memcpy(out + request_.order.to.data<int32_t>()[r] * row, place(arriving_, r),
                  static_cast<size_t>(row));
    return true;
  }
  static std::byte* place(const Tensor& rows, int64_t r) {
    return static_cast<std::byte*>(rows.raw()) + r * rows.stride(0);
  }

  const CommRequest request_;
  const int tag_;
  Tensor leaving_, arriving_;
};

/// For a group of more than kFlatRanks; null: the algorithm of small groups.
std::shared_ptr<MpiOperation> of_large_group(const MpiGroup& group, const CommRequest& request,
                                             int tag, Scratch& scratch) {
  switch (request.collective) {
    case Collective::all_reduce: {
      const int64_t bytes = request.in.bytes();
      const bool any_grouping = request.op == ReduceOp::max || request.in.dtype() == DType::i64;
      if (any_grouping && bytes <= kTreeBytes)
        return make_mpi_tree_reduction(group, request.in, request.op, tag, scratch);
      if (bytes <= kSmallBytes && bytes * group.size() <= kGatheredBytes)
        return make_mpi_gathered_sum(group, request.in, request.op, tag, scratch);
      return make_mpi_chain(group, request, tag, scratch);
    }
    case Collective::reduce_scatter:
      return make_mpi_chain(group, request, tag, scratch);
    case Collective::all_gather:
      return make_mpi_log_all_gather(group, request, tag);
    case Collective::broadcast:
      return make_mpi_tree_broadcast(group, request, tag);
    case Collective::barrier: {
      std::vector<int> all(static_cast<size_t>(group.size()));
      std::iota(all.begin(), all.end(), 0);
      return make_mpi_dissemination(group, all, tag, choice_name(request.collective));
    }
    default:
      return nullptr;
  }
}

}  // namespace

std::shared_ptr<MpiOperation> make_mpi_operation(const MpiGroup& group, const CommRequest& request,
                                                 int tag, Scratch& scratch) {
  if (group.size() > kFlatRanks) {
    if (auto operation = of_large_group(group, request, tag, scratch)) return operation;
  }
  const bool reduces = request.collective == Collective::all_reduce;
  if (reduces && request.in.bytes() <= kSmallBytes)
    return std::make_shared<SmallAllReduce>(group, request.in, request.op, tag, scratch);
  if (reduces || request.collective == Collective::reduce_scatter)
    return make_mpi_reduction(group, request, tag, scratch);
  if (request.order.from || request.order.to)
    return std::make_shared<OrderedExchange>(group, request, tag);
  const Tensor& tensor = request.in.defined() ? request.in : request.out;
  return std::make_shared<Exchange>(group, plan_of(group, request), tag,
                                    choice_name(request.collective),
                                    tensor.defined() ? tensor.bytes() : 0);
}

std::shared_ptr<MpiOperation> make_mpi_meeting(const MpiGroup& group,
                                               const std::vector<int>& members, int tag,
                                               std::string_view what) {
  if (members.size() > kFlatRanks) return make_mpi_dissemination(group, members, tag, what);
  Plan plan(group);
  for (const int member : members) {
    if (member != group.rank()) plan.receive(nullptr, 0, member);
  }
  for (const int member : members) {
    if (member != group.rank()) plan.send(nullptr, 0, member);
  }
  return std::make_shared<Exchange>(group, std::move(plan), tag, what, 0);
}

}  // namespace viaduct
