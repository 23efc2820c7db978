// All-reduce and reduce-scatter in one state machine. Every rank sums one slice; slices are cut
// into chunks. For each chunk of another rank's slice this rank sends its part and, in an
// all-reduce, then receives the sum into the same place; for each chunk of its own slice it
// receives the others' parts into scratch, sums in rank order and, in an all-reduce, sends the sum
// to all. A few chunks are in flight with each rank at a time, so that transfers and sums overlap
// and scratch stays small: (ranks − 1) · kWindow · kChunkBytes.

#include <algorithm>

#include "comm/mpi/mpi_operation.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;
constexpr int64_t kWindow = 4;

// The kind of a message, in the low digit of its label; its chunk is above it.
enum Leg : int64_t { kPartOut, kPartIn, kSumOut, kSumIn, kLegs };

class Reduction final : public MpiOperation {
 public:
  Reduction(const MpiGroup& group, const CommRequest& request, int tag, Scratch& scratch)
      : MpiOperation(group, choice_name(request.collective), request.in.bytes()),
        data_(static_cast<std::byte*>(request.in.raw())),
        elements_(request.in.elements()),
        dtype_(request.in.dtype()),
        op_(request.op),
        returns_(request.collective == Collective::all_reduce),
        part_tag_(tag),
        sum_tag_(tag + 1),
        // The first slice is the longest.
        chunk_(std::clamp<int64_t>(slice_elements(0), 1, kChunkBytes / dtype_bytes(dtype_))),
        scratch_(scratch),
        peers_(static_cast<size_t>(group.size())) {
    sum_ = returns_ ? at(slice_begin(group.rank())) : static_cast<std::byte*>(request.out.raw());
  }

 private:
  /// State of the exchange with the owner of a slice.
  struct Peer {
    int64_t chunks = 0;
    int64_t sent = 0;      // chunks whose part was posted
    int64_t left = 0;      // … and has left, with all before it
    uint32_t gone = 0;     // bit i: chunk left + i has left
    int64_t awaited = 0;   // chunks whose sum has a posted receive
    int64_t received = 0;  // … and has arrived
  };

  /// The slices of an all-reduce begin at multiples of 16 elements.
  int64_t slice_begin(int rank) const {
    if (!returns_) return elements_ / group_.size() * rank;
    const int64_t slice = (elements_ + group_.size() - 1) / group_.size();
    return std::min(elements_, (slice + 15) / 16 * 16 * rank);
  }
  int64_t slice_elements(int rank) const { return slice_begin(rank + 1) - slice_begin(rank); }
  int64_t chunk_elements(int rank, int64_t chunk) const {
    return std::min(chunk_, slice_elements(rank) - chunk * chunk_);
  }
  int64_t bytes(int64_t elements) const { return elements * dtype_bytes(dtype_); }
  std::byte* at(int64_t element) const { return data_ + bytes(element); }
  std::byte* place(int rank, int64_t chunk) const { return at(slice_begin(rank) + chunk * chunk_); }
  std::byte* scratch_of(int rank, int64_t chunk) const {
    return scratch_.data() + bytes((rank * kWindow + chunk % kWindow) * chunk_);
  }

  void post() override {
    const auto size = static_cast<size_t>(bytes(chunk_ * kWindow * group_.size()));
    if (scratch_.size() < size) scratch_.resize(size);
    for (int rank = 0; rank < group_.size(); ++rank)
      peers_[static_cast<size_t>(rank)].chunks = (slice_elements(rank) + chunk_ - 1) / chunk_;
    own_chunks_ = peers_[static_cast<size_t>(group_.rank())].chunks;
    for (int64_t chunk = 0; chunk < std::min(own_chunks_, kWindow); ++chunk) await_parts(chunk);
    for_others([&](int rank) { send_parts(rank); });
  }

  template <class F>
  void for_others(F f) {
    for (int step = 1; step < group_.size(); ++step) f((group_.rank() + step) % group_.size());
  }

  void await_parts(int64_t chunk) {
    for_others([&](int rank) {
      transfers_.receive(scratch_of(rank, chunk), bytes(chunk_elements(group_.rank(), chunk)), rank,
                         part_tag_, chunk * kLegs + kPartIn);
    });
  }

  void send_parts(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    for (; peer.sent < std::min(peer.chunks, peer.left + kWindow); ++peer.sent) {
      transfers_.send(place(rank, peer.sent), bytes(chunk_elements(rank, peer.sent)), rank,
                      part_tag_, peer.sent * kLegs + kPartOut);
    }
  }

  // Only once MPI no longer reads the part, because the sum overwrites it.
  void await_sums(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    for (; peer.awaited < std::min(peer.left, peer.received + kWindow); ++peer.awaited) {
      transfers_.receive(place(rank, peer.awaited), bytes(chunk_elements(rank, peer.awaited)), rank,
                         sum_tag_, peer.awaited * kLegs + kSumIn);
    }
  }

  void arrived(const Transfer& transfer) override {
    const int64_t chunk = transfer.label / kLegs;
    Peer& peer = peers_[static_cast<size_t>(transfer.peer)];
    switch (static_cast<Leg>(transfer.label % kLegs)) {
      case kPartOut:
        peer.gone |= 1u << (chunk - peer.left);
        for (; (peer.gone & 1u) != 0; peer.gone >>= 1) ++peer.left;
        send_parts(transfer.peer);
        if (returns_) await_sums(transfer.peer);
        break;
      case kPartIn:
        ++parts_[static_cast<size_t>(chunk % kWindow)];
        sum_chunks();
        break;
      case kSumIn:
        ++peer.received;
        await_sums(transfer.peer);
        break;
      default:
        break;
    }
  }

  void sum_chunks() {
    const int own = group_.rank();
    for (; summed_ < own_chunks_ &&
           parts_[static_cast<size_t>(summed_ % kWindow)] == group_.size() - 1;
         ++summed_) {
      parts_[static_cast<size_t>(summed_ % kWindow)] = 0;
      sources_.clear();
      for (int rank = 0; rank < group_.size(); ++rank)
        sources_.push_back(rank == own ? place(own, summed_) : scratch_of(rank, summed_));
      std::byte* const sum = sum_ + bytes(summed_ * chunk_);
      const int64_t elements = chunk_elements(own, summed_);
      reduce_in_rank_order(dtype_, op_, sources_, sum, elements);
      if (summed_ + kWindow < own_chunks_) await_parts(summed_ + kWindow);
      if (!returns_) continue;
      for_others([&](int rank) {
        transfers_.send(sum, bytes(elements), rank, sum_tag_, summed_ * kLegs + kSumOut);
      });
    }
  }

  std::byte* const data_;
  const int64_t elements_;
  const DType dtype_;
  const ReduceOp op_;
  const bool returns_;  // sums go to all ranks
  const int part_tag_, sum_tag_;
  const int64_t chunk_;  // elements
  Scratch& scratch_;
  std::byte* sum_;  // the sum of this rank's slice
  std::vector<Peer> peers_;
  int64_t own_chunks_ = 0, summed_ = 0;
  int parts_[kWindow] = {};  // received, for the chunks summed_ … summed_ + kWindow − 1
  std::vector<const std::byte*> sources_;
};

}  // namespace

std::shared_ptr<MpiOperation> make_mpi_reduction(const MpiGroup& group, const CommRequest& request,
                                                 int tag, Scratch& scratch) {
  return std::make_shared<Reduction>(group, request, tag, scratch);
}

}  // namespace viaduct
