#pragma once
// Exchange between the hosts of ranks that are threads: holds a call's texts by rank; the last rank
// to arrive merges them.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/host_group.h"
#include "comm/thread/thread_world.h"

namespace viaduct {

class HostBoard {
 public:
  /// `members`: ranks in the world, in the order of the group called `name`.
  HostBoard(ThreadWorld& world, std::vector<int> members, std::string name);

  /// One call of all ranks.
  struct Call {
    std::string_view what;
    int64_t number = 0;
    std::vector<std::string> said;  // texts by rank, until they are merged
    std::vector<bool> came;
    size_t here = 0;
    std::string merged, error;  // either is set before `done`
    std::atomic<bool> done{false};
  };
  /// Stores `text` as the contribution of `rank` to its next call. If ranks make calls of different
  /// kinds, the call is an error on all ranks.
  std::shared_ptr<Call> leave(int rank, std::string_view what, std::string text,
                              HostGroup::Merge merge);
  /// Blocks until `call` is done. Errors as HostCall::wait.
  void wait(int rank, Call& call);

 private:
  void check_others(int rank, Call& call, bool late);
  std::string title(int rank, const Call& call) const;
  std::string names_of(const std::vector<int>& ranks) const;

  ThreadWorld& world_;
  const std::vector<int> members_;
  const std::string name_;
  std::mutex mutex_;  // protects the following, and the contents of calls until they are done
  std::vector<int64_t> next_;
  std::map<int64_t, std::shared_ptr<Call>> calls_;  // calls that some rank has not reached yet
};

/// The host group of `rank` at `board`; `owner` keeps the board alive.
std::shared_ptr<HostGroup> make_thread_host_group(std::shared_ptr<void> owner, HostBoard& board,
                                                  int rank, int size);

}  // namespace viaduct
