#pragma once
// The order in which operations of different ranks meet: the k-th that one party posts is the k-th
// of every other. A group has one lane for collectives, and one for each (sender, receiver, flow).

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "comm/thread/shared_operation.h"
#include "comm/thread/spin_lock.h"

namespace viaduct {

class Lane {
 public:
  /// `members`: ranks in the world of the parties.
  Lane(ThreadWorld& world, const std::vector<int>& members);

  struct Posted {
    std::shared_ptr<SharedOperation> operation;
    bool last = false;  // all are here: the caller has to `begin` it
  };
  /// The next operation of `party`.
  Posted post(int party, const CommRequest& request);
  /// See SharedOperation::leave.
  bool leave(SharedOperation& operation);
  /// The parties that have not posted `operation`.
  std::vector<int> missing(const SharedOperation& operation);

 private:
  ThreadWorld& world_;
  std::shared_ptr<const std::vector<int>> members_;
  SpinLock lock_;
  std::deque<std::shared_ptr<SharedOperation>> open_;  // some party has not posted it
  int64_t first_open_ = 0;                             // number of open_.front()
  std::vector<int64_t> next_;                          // by party
};

}  // namespace viaduct
