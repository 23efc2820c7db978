// Algorithms for large groups without messages between all pairs: a rank's message count grows with
// the logarithm of the group. Sums of small tensors are those of `reduce_in_rank_order`.

#include <algorithm>
#include <cstring>

#include "comm/mpi/mpi_operation.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

// A broadcast is forwarded in pieces of this size, so that ranks far from the root wait for one
// piece per hop, not for the whole tensor.
constexpr int64_t kPieceBytes = 1 << 20;

/// Dissemination barrier (Hensgen et al. 1988): in each round a rank sends an empty message to the
/// rank `distance` ahead and receives one from `distance` behind; the distance doubles.
class Dissemination final : public MpiOperation {
 public:
  Dissemination(const MpiGroup& group, std::vector<int> members, int tag, std::string_view what)
      : MpiOperation(group, what, 0), members_(std::move(members)), tag_(tag) {
    relays_ = true;
    own_ = static_cast<size_t>(std::find(members_.begin(), members_.end(), group.rank()) -
                               members_.begin());
  }

 private:
  void post() override {
    const size_t n = members_.size();
    if (distance_ >= n) return;
    transfers_.receive(nullptr, 0, members_[(own_ + n - distance_) % n], tag_);
    transfers_.send(nullptr, 0, members_[(own_ + distance_) % n], tag_);
  }
  bool finish() override {
    distance_ *= 2;
    if (distance_ >= members_.size()) return true;
    post();
    return false;
  }

  const std::vector<int> members_;
  const int tag_;
  size_t own_ = 0, distance_ = 1;
};

/// All-gather in rounds that double what a rank has (Bruck et al. 1997): blocks are stored at their
/// final place from the start, rank r has blocks r, r + 1, … (mod ranks), and receives as many
/// again from the rank that many ahead.
class DoublingGather : public MpiOperation {
 public:
  DoublingGather(const MpiGroup& group, std::string_view what, int64_t bytes, int tag)
      : MpiOperation(group, what, bytes), tag_(tag) {
    relays_ = true;
  }

 protected:
  /// `all`: a block for each rank; this rank's own is filled.
  void gather(std::byte* all, int64_t block_bytes) {
    all_ = all, block_bytes_ = block_bytes;
    next_round();
  }
  bool gathered() {
    have_ += moved_;
    if (have_ == group_.size()) return true;
    next_round();
    return false;
  }

 private:
  void next_round() {
    const int n = group_.size(), rank = group_.rank();
    moved_ = std::min(have_, n - have_);
    const int ahead = (rank + have_) % n, behind = (rank + n - have_) % n;
    for_runs(ahead,
             [&](std::byte* at, int64_t bytes) { transfers_.receive(at, bytes, ahead, tag_); });
    for_runs(rank, [&](std::byte* at, int64_t bytes) { transfers_.send(at, bytes, behind, tag_); });
  }
  /// The blocks of this round from block `first` on: in two pieces if they wrap around the end.
  template <class F>
  void for_runs(int first, F f) const {
    const int until_end = std::min(moved_, group_.size() - first);
    f(all_ + first * block_bytes_, until_end * block_bytes_);
    if (moved_ > until_end) f(all_, (moved_ - until_end) * block_bytes_);
  }

  const int tag_;
  std::byte* all_ = nullptr;
  int64_t block_bytes_ = 0;
  int have_ = 1, moved_ = 0;
};

class LogAllGather final : public DoublingGather {
 public:
  LogAllGather(const MpiGroup& group, const CommRequest& request, int tag)
      : DoublingGather(group, choice_name(request.collective), request.in.bytes(), tag),
        in_(static_cast<const std::byte*>(request.in.raw())),
        out_(static_cast<std::byte*>(request.out.raw())),
        bytes_(request.in.bytes()) {}

 private:
  void post() override {
    std::byte* const own = out_ + group_.rank() * bytes_;
    if (in_ != own && bytes_ > 0) std::memmove(own, in_, static_cast<size_t>(bytes_));
    gather(out_, bytes_);
  }
  bool finish() override { return gathered(); }

  const std::byte* const in_;
  std::byte* const out_;
  const int64_t bytes_;
};

/// The arguments of an all-reduce in place.
struct Summed {
  explicit Summed(const Tensor& tensor)
      : data(static_cast<std::byte*>(tensor.raw())),
        bytes(tensor.bytes()),
        elements(tensor.elements()),
        dtype(tensor.dtype()) {}
  std::byte* data;
  int64_t bytes, elements;
  DType dtype;
};

/// All inputs to all ranks, and every rank sums: for tensors that are small on all ranks together.
class GatheredSum final : public DoublingGather {
 public:
  GatheredSum(const MpiGroup& group, const Tensor& tensor, ReduceOp op, int tag, Scratch& scratch)
      : DoublingGather(group, choice_name(Collective::all_reduce), tensor.bytes(), tag),
        tensor_(tensor),
        op_(op),
        scratch_(scratch) {}

 private:
  void post() override {
    const auto all = static_cast<size_t>(tensor_.bytes * group_.size());
    if (scratch_.size() < all) scratch_.resize(all);
    std::memcpy(scratch_.data() + tensor_.bytes * group_.rank(), tensor_.data,
                static_cast<size_t>(tensor_.bytes));
    gather(scratch_.data(), tensor_.bytes);
  }
  bool finish() override {
    if (!gathered()) return false;
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < group_.size(); ++rank)
      sources.push_back(scratch_.data() + rank * tensor_.bytes);
    reduce_in_rank_order(tensor_.dtype, op_, sources, tensor_.data, tensor_.elements);
    return true;
  }

  const Summed tensor_;
  const ReduceOp op_;
  Scratch& scratch_;
};

/// Up a binary tree to rank 0 and down again: for reductions whose bits do not depend on the
/// grouping: sums of i64 and maxima.
class TreeReduction final : public MpiOperation {
 public:
  TreeReduction(const MpiGroup& group, const Tensor& tensor, ReduceOp op, int tag, Scratch& scratch)
      : MpiOperation(group, choice_name(Collective::all_reduce), tensor.bytes()),
        tensor_(tensor),
        op_(op),
        tag_(tag),
        scratch_(scratch) {
    relays_ = true;
    const int rank = group.rank();
    for (int step = 1; rank + step < group.size() && (rank & step) == 0; step *= 2)
      children_.push_back(rank + step);
    came_up_.resize(children_.size());
    if (rank > 0) parent_ = rank & (rank - 1);
  }

 private:
  static constexpr int64_t kDown = -1;

  std::byte* place(size_t child) const {
    return scratch_.data() + static_cast<int64_t>(child) * tensor_.bytes;
  }
  void post() override {
    const size_t size = children_.size() * static_cast<size_t>(tensor_.bytes);
    if (scratch_.size() < size) scratch_.resize(size);
    for (size_t i = 0; i < children_.size(); ++i)
      transfers_.receive(place(i), tensor_.bytes, children_[i], tag_, static_cast<int64_t>(i));
    if (children_.empty()) go_up();
  }
  void arrived(const Transfer& transfer) override {
    if (transfer.sending) return;
    if (transfer.label == kDown) return pass_down();
    came_up_[static_cast<size_t>(transfer.label)] = true;
    if (std::find(came_up_.begin(), came_up_.end(), false) != came_up_.end()) return;
    std::vector<const std::byte*> sources{tensor_.data};
    for (size_t i = 0; i < children_.size(); ++i) sources.push_back(place(i));
    const ReduceOp op = op_ == ReduceOp::max ? op_ : ReduceOp::sum;
    reduce_in_rank_order(tensor_.dtype, op, sources, tensor_.data, tensor_.elements);
    go_up();
  }
  void go_up() {
    if (parent_ < 0) {
      auto* values = reinterpret_cast<int64_t*>(tensor_.data);
      for (int64_t i = 0; op_ == ReduceOp::average && i < tensor_.elements; ++i)
        values[i] /= group_.size();
      return pass_down();
    }
    transfers_.send(tensor_.data, tensor_.bytes, parent_, tag_, 0);
  }
  // MPI reads the data sent up until it has left: only then may the result overwrite it.
  bool finish() override {
    if (parent_ < 0 || asked_) return true;
    asked_ = true;
    transfers_.receive(tensor_.data, tensor_.bytes, parent_, tag_, kDown);
    return false;
  }
  void pass_down() {
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      transfers_.send(tensor_.data, tensor_.bytes, *child, tag_, 0);
  }

  const Summed tensor_;
  const ReduceOp op_;
  const int tag_;
  Scratch& scratch_;
  int parent_ = -1;
  bool asked_ = false;
  std::vector<int> children_;
  std::vector<bool> came_up_;
};

/// Along a binary tree from the broadcast's root.
class TreeBroadcast final : public MpiOperation {
 public:
  TreeBroadcast(const MpiGroup& group, const CommRequest& request, int tag)
      : MpiOperation(group, choice_name(request.collective), request.in.bytes()),
        data_(static_cast<std::byte*>(request.in.raw())),
        bytes_(request.in.bytes()),
        root_(request.peer),
        tag_(tag) {
    relays_ = true;
    const int n = group.size(), place = (group.rank() + n - root_) % n;
    const auto rank_at = [&](int at) { return (at + root_) % n; };
    for (int step = 1; place + step < n && (place & step) == 0; step *= 2)
      children_.push_back(rank_at(place + step));
    std::reverse(children_.begin(), children_.end());  // the largest subtree first
    if (place > 0) parent_ = rank_at(place & (place - 1));
  }

 private:
  int64_t pieces() const { return std::max<int64_t>(1, (bytes_ + kPieceBytes - 1) / kPieceBytes); }
  int64_t piece_bytes(int64_t piece) const {
    return std::min(kPieceBytes, bytes_ - piece * kPieceBytes);
  }
  void post() override {
    for (int64_t piece = 0; piece < pieces(); ++piece) {
      if (parent_ < 0) {
        pass(piece);
      } else {
        transfers_.receive(data_ + piece * kPieceBytes, piece_bytes(piece), parent_, tag_, piece);
      }
    }
  }
  void arrived(const Transfer& transfer) override {
    if (!transfer.sending) pass(transfer.label);
  }
  void pass(int64_t piece) {
    for (const int child : children_)
      transfers_.send(data_ + piece * kPieceBytes, piece_bytes(piece), child, tag_, piece);
  }

  std::byte* const data_;
  const int64_t bytes_;
  const int root_, tag_;
  int parent_ = -1;
  std::vector<int> children_;
};

}  // namespace

std::shared_ptr<MpiOperation> make_mpi_dissemination(const MpiGroup& group,
                                                     const std::vector<int>& members, int tag,
                                                     std::string_view what) {
  return std::make_shared<Dissemination>(group, members, tag, what);
}

std::shared_ptr<MpiOperation> make_mpi_log_all_gather(const MpiGroup& group,
                                                      const CommRequest& request, int tag) {
  return std::make_shared<LogAllGather>(group, request, tag);
}

std::shared_ptr<MpiOperation> make_mpi_gathered_sum(const MpiGroup& group, const Tensor& tensor,
                                                    ReduceOp op, int tag, Scratch& scratch) {
  return std::make_shared<GatheredSum>(group, tensor, op, tag, scratch);
}

std::shared_ptr<MpiOperation> make_mpi_tree_reduction(const MpiGroup& group, const Tensor& tensor,
                                                      ReduceOp op, int tag, Scratch& scratch) {
  return std::make_shared<TreeReduction>(group, tensor, op, tag, scratch);
}

std::shared_ptr<MpiOperation> make_mpi_tree_broadcast(const MpiGroup& group,
                                                      const CommRequest& request, int tag) {
  return std::make_shared<TreeBroadcast>(group, request, tag);
}

}  // namespace viaduct
