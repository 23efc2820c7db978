// All-reduce and reduce-scatter in large groups: sums in rank order without messages between all
// pairs. Partial sums go up the chain of ranks, from rank 0 to the last one, each rank adding its
// own part in the accumulation format; the last rank rounds and sends results down again. A rank
// exchanges messages only with its two neighbours, and the bytes it sends and holds depend on the
// tensor, not on the group. The first chunk takes 2 · ranks steps; further chunks follow in a
// pipeline.

#include <algorithm>
#include <cstring>

#include "comm/mpi/mpi_operation.h"
#include "comm/rank_order_sum.h"

namespace viaduct {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;  // of partial sums
constexpr int64_t kWindow = 4;              // chunks in flight at a time

/// Finished chunks, in any order of at most kWindow: all before `begin` are finished.
struct Finished {
  int64_t begin = 0;
  uint32_t mask = 0;  // bit i: begin + i is finished
  void add(int64_t chunk) {
    mask |= 1u << (chunk - begin);
    for (; (mask & 1u) != 0; mask >>= 1) ++begin;
  }
};

class Chain final : public MpiOperation {
 public:
  Chain(const MpiGroup& group, const CommRequest& request, int tag, Scratch& scratch)
      : MpiOperation(group, choice_name(request.collective), request.in.bytes()),
        in_(static_cast<const std::byte*>(request.in.raw())),
        out_(static_cast<std::byte*>(request.out.raw())),
        elements_(request.in.elements()),
        dtype_(request.in.dtype()),
        op_(request.op),
        scatters_(request.collective == Collective::reduce_scatter),
        up_tag_(tag),
        down_tag_(tag + 1),
        chunk_(std::clamp<int64_t>(elements_, 1, kChunkBytes / sum_bytes(1))),
        chunks_((elements_ + chunk_ - 1) / chunk_),
        scratch_(scratch) {
    relays_ = true;
  }

 private:
  enum Leg : int64_t { kUpIn, kUpOut, kDownIn, kDownOut, kLegs };

  bool is_last() const { return group_.rank() + 1 == group_.size(); }
  int64_t bytes(int64_t elements) const { return elements * dtype_bytes(dtype_); }
  int64_t sum_bytes(int64_t elements) const {
    return elements * dtype_bytes(partial_sum_dtype(dtype_));
  }
  int64_t begin_of(int64_t chunk) const { return chunk * chunk_; }
  int64_t size_of(int64_t chunk) const { return std::min(chunk_, elements_ - begin_of(chunk)); }

  /// Number of results that pass rank `rank` on their way down: all of them, or its own shard and
  /// those of lower ranks.
  int64_t results_of(int rank) const {
    return scatters_ ? elements_ / group_.size() * (rank + 1) : elements_;
  }
  int64_t results_of(int rank, int64_t chunk) const {
    return std::clamp<int64_t>(results_of(rank) - begin_of(chunk), 0, size_of(chunk));
  }
  int64_t chunks_down() const { return (results_of(group_.rank()) + chunk_ - 1) / chunk_; }

  std::byte* sums(int64_t chunk) const {
    return scratch_.data() + sum_bytes(chunk % kWindow * chunk_);
  }
  /// Where the results of a chunk are stored: at their place in the output, or in scratch.
  std::byte* results(int64_t chunk) const {
    if (!scatters_) return out_ + bytes(begin_of(chunk));
    return scratch_.data() + sum_bytes(kWindow * chunk_) + bytes(chunk % kWindow * chunk_);
  }

  void post() override {
    const auto size = static_cast<size_t>(sum_bytes(kWindow * chunk_) + bytes(kWindow * chunk_));
    if (scratch_.size() < size) scratch_.resize(size);
    go_up();
  }

  /// Starts the next chunks for which a slot is free.
  void go_up() {
    for (; asked_up_ < std::min(chunks_, left_up_.begin + kWindow); ++asked_up_) {
      if (group_.rank() == 0) {
        begin_partial_sum(dtype_, in_ + bytes(begin_of(asked_up_)), sums(asked_up_),
                          size_of(asked_up_));
        send_up(asked_up_);
      } else {
        transfers_.receive(sums(asked_up_), sum_bytes(size_of(asked_up_)), group_.rank() - 1,
                           up_tag_, asked_up_ * kLegs + kUpIn);
      }
    }
    go_down();
  }

  void send_up(int64_t chunk) {
    transfers_.send(sums(chunk), sum_bytes(size_of(chunk)), group_.rank() + 1, up_tag_,
                    chunk * kLegs + kUpOut);
    added_.add(chunk);
  }

  void arrived(const Transfer& transfer) override {
    const int64_t chunk = transfer.label / kLegs;
    switch (static_cast<Leg>(transfer.label % kLegs)) {
      case kUpIn:
        add_to_partial_sum(dtype_, op_, in_ + bytes(begin_of(chunk)), sums(chunk), size_of(chunk));
        if (is_last()) {
          summed_.add(chunk);
          added_.add(chunk);
          go_down();
        } else {
          send_up(chunk);
          go_down();
        }
        break;
      case kUpOut:
        left_up_.add(chunk);
        go_up();
        break;
      case kDownIn:
        pass_down(chunk);
        break;
      case kDownOut:
        left_down_.add(chunk);
        go_down();
        break;
      default:
        break;
    }
  }

  /// Posts receives for results, or makes the results on the last rank. In place they overwrite
  /// this rank's own part, which must have been added before.
  void go_down() {
    for (; asked_down_ < std::min(chunks_down(), left_down_.begin + kWindow); ++asked_down_) {
      const int64_t chunk = asked_down_;
      if (chunk >= (is_last() ? summed_.begin : added_.begin)) return;
      if (!is_last()) {
        transfers_.receive(results(chunk), bytes(results_of(group_.rank(), chunk)),
                           group_.rank() + 1, down_tag_, chunk * kLegs + kDownIn);
        continue;
      }
      end_partial_sum(dtype_, op_, group_.size(), sums(chunk), results(chunk), size_of(chunk));
      left_up_.add(chunk);
      ++asked_down_;  // before pass_down, which may call go_down again
      pass_down(chunk);
      return go_up();
    }
  }

  void pass_down(int64_t chunk) {
    if (scatters_) take_own(chunk);
    const int64_t below = group_.rank() > 0 ? results_of(group_.rank() - 1, chunk) : 0;
    if (below == 0) {
      left_down_.add(chunk);
      if (!is_last()) go_down();
      return;
    }
    transfers_.send(results(chunk), bytes(below), group_.rank() - 1, down_tag_,
                    chunk * kLegs + kDownOut);
  }

  void take_own(int64_t chunk) {
    const int64_t first = elements_ / group_.size() * group_.rank();
    const int64_t from = std::max(first, begin_of(chunk)),
                  to = std::min(results_of(group_.rank()), begin_of(chunk) + size_of(chunk));
    if (to <= from) return;
    std::memcpy(out_ + bytes(from - first), results(chunk) + bytes(from - begin_of(chunk)),
                static_cast<size_t>(bytes(to - from)));
  }

  const std::byte* const in_;
  std::byte* const out_;
  const int64_t elements_;
  const DType dtype_;
  const ReduceOp op_;
  const bool scatters_;
  const int up_tag_, down_tag_;
  const int64_t chunk_, chunks_;  // chunk_: in elements
  Scratch& scratch_;              // kWindow chunks of sums, then kWindow of results
  int64_t asked_up_ = 0, asked_down_ = 0;
  Finished added_;      // this rank's part is in the sum
  Finished summed_;     // on the last rank: all parts are
  Finished left_up_;    // the slot of the sum is free
  Finished left_down_;  // … and of the result
};

}  // namespace

std::shared_ptr<MpiOperation> make_mpi_chain(const MpiGroup& group, const CommRequest& request,
                                             int tag, Scratch& scratch) {
  return std::make_shared<Chain>(group, request, tag, scratch);
}

}  // namespace viaduct
