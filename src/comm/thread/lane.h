#pragma once
// Matches the operations of different ranks: the k-th that one party posts is the k-th of every
// other. A group has one lane for collectives, and one for each (sender, receiver, flow).

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
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
    SharedOperation* operation;  // owned by the lane; valid until it is released
    bool last = false;           // all parties have posted: the caller has to `begin` it
  };
  /// The next operation of `party`; called only by its host thread.
  Posted post(int party, const Ask& ask);
  /// The parties that have not posted `operation`.
  std::vector<int> missing(const SharedOperation& operation) const;

 private:
  /// Finds or creates the operation, under the lock.
  SharedOperation& operation(int64_t number);

  struct alignas(64) Party {
    std::atomic<int64_t> next{0};  // the number of its next operation
  };

  ThreadWorld& world_;
  std::shared_ptr<const std::vector<int>> members_;
  std::vector<Party> parties_;
  // Operations are reused. Number n is stored at n mod kRing or, while an older one is still held
  // there, in a list of its own until all have posted and released it. The first party creates it,
  // under the lock; the others find it without the lock.
  static constexpr size_t kRing = 8;
  std::array<std::shared_ptr<SharedOperation>, kRing> ring_;
  alignas(64) SpinLock lock_;
  std::map<int64_t, std::shared_ptr<SharedOperation>> others_;
};

}  // namespace viaduct
