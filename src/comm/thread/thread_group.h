#pragma once
// A group of ranks of one process: the lanes of its collectives and messages, and the groups split
// from it that some of their members have not fetched yet.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/thread/host_board.h"
#include "comm/thread/lane.h"
#include "comm/thread/thread_world.h"

namespace viaduct {

class ThreadGroup {
 public:
  /// `members`: ranks in the world, in the order of the group.
  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> members, std::string name);

  ThreadWorld& world() const { return *world_; }
  const std::string& name() const { return name_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// The rank in the world.
  int world_rank(int rank) const { return members_[static_cast<size_t>(rank)]; }

  Lane& collectives() { return collectives_; }
  HostBoard& hosts() { return hosts_; }
  /// Party 0 sends, party 1 receives.
  Lane& channel(int from, int to, Flow flow);

  /// The group of `members` (ranks of this group); each member gets the same group at its `time`-th
  /// call.
  std::shared_ptr<ThreadGroup> split(const std::vector<int>& members, int64_t time,
                                     const std::string& name);

  /// The same ranks in a world of their own that has not failed, with a timeout of `seconds`: one
  /// group for all that ask. Ranks that have ended in this world have ended there.
  std::shared_ptr<ThreadGroup> again(double seconds);
  /// The program of `rank` has returned, here and in the group above.
  void end(int rank);

 private:
  struct Split {
    std::shared_ptr<ThreadGroup> group;
    size_t fetched = 0;
  };

  std::shared_ptr<ThreadWorld> world_;
  std::vector<int> members_;
  std::string name_;
  Lane collectives_;
  HostBoard hosts_;
  std::mutex mutex_;  // protects the following
  std::map<std::tuple<int, int, Flow>, std::unique_ptr<Lane>> channels_;
  std::map<std::pair<std::vector<int>, int64_t>, Split> splits_;
  std::shared_ptr<ThreadGroup> again_;
};

/// A rank's membership in a group. Its communicator and operations share it, so that an operation
/// does not count references to the group.
struct ThreadMember {
  std::shared_ptr<ThreadGroup> group;
  int rank = 0;
};

}  // namespace viaduct
