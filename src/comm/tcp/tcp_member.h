#pragma once
// A process of a run whose processes talk over TCP: its connection to the hub, and the calls that
// it takes part in.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/thread.h"
#include "comm/host_group.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/tcp_socket.h"

namespace viaduct {

class TcpMember {
 public:
  /// Connects as `rank` of `ranks`, and returns when all are here. CommError that says who is not
  /// after `timeout_seconds`, which is also that of calls.
  TcpMember(const TcpAddress& hub, int rank, int ranks, double timeout_seconds);
  /// Closes the connection; others see a failure unless all have ended together.
  ~TcpMember();
  TcpMember(const TcpMember&) = delete;
  TcpMember& operator=(const TcpMember&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// A call of a group, in which this rank has said its text.
  struct Call {
    std::string group, what;
    int64_t number = 0;
    int place = 0, size = 0;
    HostGroup::Merge merge = nullptr;
    bool gets = false;  // this rank gets the merged text
    bool to_all = false;
    std::optional<std::string> merged;
    std::optional<std::string> missing;  // places, once asked for
  };
  /// `call` as above, without results.
  std::shared_ptr<Call> say(Call call, std::string_view text);
  /// Blocks until the merged text is here. CommError with the cause if a rank has failed, or after
  /// the timeout; `name_of_place` says which rank of the run one of the group is.
  std::string wait(Call& call, int (*name_of_place)(const void* group, int place),
                   const void* group);

  /// All ranks get the cause, unless there is one already.
  void fail(const std::string& cause);
  /// Why the run has failed; empty if it has not.
  std::string failure() const;
  /// This rank's program is over: returns when all ranks' are. CommError with the cause if one
  /// fails.
  void end_together();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void read();
  void handle(FrameReader frame);
  void send(const std::string& frame);
  void set_failure(const std::string& cause);

  const int rank_, ranks_;
  const double timeout_seconds_;
  TcpSocket socket_;
  std::mutex sending_;
  mutable std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<Call>> calls_;
  bool all_here_ = false, all_over_ = false;
  std::string cause_;
  Thread reader_;  // last: it uses all others
};

}  // namespace viaduct
