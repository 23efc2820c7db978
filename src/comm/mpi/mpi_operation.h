#pragma once
// Collectives and messages as small state machines: `begin` posts the first messages, `advance`
// continues with those that have arrived, nothing blocks. They own no memory of the caller: the
// caller's tensors outlive them.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_network.h"

namespace viaduct {

class MpiOperation {
 public:
  /// `what` is a literal such as "all_reduce"; `what` and `bytes` appear in messages.
  MpiOperation(const MpiGroup& group, std::string_view what, int64_t bytes);
  virtual ~MpiOperation();

  void begin();
  /// Continues; true if a message arrived or left. Sets `done` at the end.
  bool advance();
  /// The result is complete and nothing reads the input any more.
  bool done() const { return done_.load(std::memory_order_acquire); }

  /// "all_reduce over tp (4 ranks, 4096 bytes) on rank 0".
  std::string name() const;
  bool begun() const { return begun_; }
  /// When it began, or when a message last arrived or left.
  double moved_seconds() const { return moved_seconds_; }
  /// From the first message to the end; 0 if all messages arrived at once.
  double busy_seconds() const {
    return done() && first_seconds_ > 0 ? moved_seconds_ - first_seconds_ : 0;
  }
  /// "rank 2 (world rank 6)", …: the ranks from which no message came; if all sent one, those still
  /// awaited. If ranks forward the messages of others, the text adds that these ranks may be
  /// waiting themselves.
  std::string missing_ranks() const;
  /// Cancels it: buffers may be freed (Transfers::give_up). It is then never done.
  void give_up(double seconds = Transfers::kDrainSeconds) { transfers_.give_up(seconds); }

 protected:
  /// Posts the first messages.
  virtual void post() = 0;
  virtual void arrived(const Transfer&) {}
  /// Called when no message is in flight; false if it posted more.
  virtual bool finish() { return true; }

  const MpiGroup& group_;
  Transfers transfers_;
  bool relays_ = false;  // ranks forward messages of others

 private:
  const std::string_view what_;
  const int64_t bytes_;
  std::vector<bool> came_;  // by rank: a message from it has arrived
  double moved_seconds_ = 0, first_seconds_ = 0;
  bool begun_ = false;
  std::atomic<bool> done_{false};
};

/// Memory for received parts of a sum, kept from one operation to the next.
using Scratch = std::vector<std::byte>;

/// `request` among the ranks of `group`. `tag` and `tag + 1` are reserved for it as long as it can
/// overlap with another operation of the group.
std::shared_ptr<MpiOperation> make_mpi_operation(const MpiGroup& group, const CommRequest& request,
                                                 int tag, Scratch& scratch);
/// All-reduce of more than a few kilobytes, and reduce-scatter (mpi_reduction.cpp).
std::shared_ptr<MpiOperation> make_mpi_reduction(const MpiGroup& group, const CommRequest& request,
                                                 int tag, Scratch& scratch);
// In larger groups no rank exchanges messages with all others, except in all-to-all, whose data
// differ for each pair: a rank's messages grow at most with log2 of the group
// (mpi_log_exchange.cpp), or not at all (mpi_chain.cpp), and so does the memory of sums.
inline constexpr int kFlatRanks = 8;
/// All-reduces and reduce-scatters of large groups, in rank order along the chain of ranks.
std::shared_ptr<MpiOperation> make_mpi_chain(const MpiGroup& group, const CommRequest& request,
                                             int tag, Scratch& scratch);
/// An all-reduce of a tensor that is small on all ranks together.
std::shared_ptr<MpiOperation> make_mpi_gathered_sum(const MpiGroup& group, const Tensor& tensor,
                                                    ReduceOp op, int tag, Scratch& scratch);
/// An all-reduce whose bits do not depend on the grouping: sums of i64, and maxima.
std::shared_ptr<MpiOperation> make_mpi_tree_reduction(const MpiGroup& group, const Tensor& tensor,
                                                      ReduceOp op, int tag, Scratch& scratch);
std::shared_ptr<MpiOperation> make_mpi_log_all_gather(const MpiGroup& group,
                                                      const CommRequest& request, int tag);
std::shared_ptr<MpiOperation> make_mpi_tree_broadcast(const MpiGroup& group,
                                                      const CommRequest& request, int tag);
/// As `make_mpi_meeting`, for many members.
std::shared_ptr<MpiOperation> make_mpi_dissemination(const MpiGroup& group,
                                                     const std::vector<int>& members, int tag,
                                                     std::string_view what);
/// Done when all of `members` have begun it.
std::shared_ptr<MpiOperation> make_mpi_meeting(const MpiGroup& group,
                                               const std::vector<int>& members, int tag,
                                               std::string_view what);

}  // namespace viaduct
