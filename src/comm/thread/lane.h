#pragma once
// The order in which operations of different ranks meet: the k-th that one party posts is the k-th
// of every other. A group has one lane for collectives, and one for each (sender, receiver, flow).

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
    SharedOperation* operation;  // of the lane, until it is released
    bool last = false;           // all are here: the caller has to `begin` it
  };
  /// The next operation of `party`; called by its host thread alone.
  Posted post(int party, const Ask& ask);
  /// The parties that have not posted `operation`.
  std::vector<int> missing(const SharedOperation& operation) const;

 private:
  /// Makes or finds the operation, under the lock.
  SharedOperation& operation(int64_t number);

  struct alignas(64) Party {
    std::atomic<int64_t> next{0};  // the number of its next operation
  };

  ThreadWorld& world_;
  std::shared_ptr<const std::vector<int>> members_;
  std::vector<Party> parties_;
  // Operations are used again. Number n lives at n mod kRing, or, while an older one is still held
  // there, among the others until all have posted and released it. Who comes first makes it, under
  // the lock; the others find it without.
  static constexpr size_t kRing = 8;
  std::array<std::shared_ptr<SharedOperation>, kRing> ring_;
  alignas(64) SpinLock lock_;
  std::map<int64_t, std::shared_ptr<SharedOperation>> others_;
};

}  // namespace viaduct
