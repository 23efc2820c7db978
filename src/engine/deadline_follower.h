#pragma once
// Ends a stage's actions with a DeadlineError at the first one that would begin after a deadline.

#include "base/deadline.h"
#include "pipeline/action_follower.h"

namespace viaduct {

class DeadlineFollower final : public ActionFollower {
 public:
  /// `next`: is asked after the deadline; may be null, outlives the follower.
  DeadlineFollower(const Deadline& deadline, ActionFollower* next)
      : deadline_(deadline), next_(next) {}

  bool before(const Action& action) override {
    deadline_.check("dry run of a micro-batch");
    return next_ == nullptr || next_->before(action);
  }
  void after(const Action& action) override {
    if (next_ != nullptr) next_->after(action);
  }

 private:
  Deadline deadline_;
  ActionFollower* next_;
};

}  // namespace viaduct
