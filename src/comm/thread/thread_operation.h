#pragma once
// A rank's side of an operation between threads. It owns the rank's tensors until no other thread
// can access them, so that they are released on the rank's host thread, however the operation ends.

#include <memory>

#include "comm/communicator.h"
#include "comm/thread/thread_group.h"

namespace viaduct {

class ThreadOperation final : public CommOperation {
 public:
  /// Posts the request on `lane` (of the member's group) as `party`.
  ThreadOperation(std::shared_ptr<const ThreadMember> member, Lane& lane, int party,
                  const CommRequest& request);
  /// Waits, unless it is destroyed by an exception: then it leaves an operation that has not begun.
  ~ThreadOperation() override;

  bool ready() override;
  void wait() override;
  double busy_seconds() const override { return operation_->busy_seconds(); }

 private:
  /// Returns when the operation or the state of a rank has changed, or `limit` is reached. Begins
  /// to wait at `begin` and returns the time (steady_seconds()), which may be a few polls old.
  double pause_until_change(SharedOperation::State seen, uint32_t events, double begin,
                            double limit);
  /// Unless all have posted: throws if a rank has failed or has ended, or if it is `late`.
  void check_others(bool late);
  void finish_or_leave();
  [[noreturn]] void give_up(const std::string& why);
  bool leave();
  void drain();
  std::string title() const;
  std::string names_of(const std::vector<int>& parties) const;

  ThreadWorld& world() const { return member_->group->world(); }
  int world_rank() const { return member_->group->world_rank(member_->rank); }

  std::shared_ptr<const ThreadMember> member_;
  Lane& lane_;
  int party_;
  CommRequest request_;
  int exceptions_;  // uncaught exceptions at construction
  bool over_ = false;
  SharedOperation* operation_;
};

}  // namespace viaduct
