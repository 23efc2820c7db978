#pragma once
// The hub of a run whose processes talk over TCP, a thread of rank 0's process: all ranks connect
// to it, and it passes on what they say. It merges nothing: texts of a call go to the first rank of
// the group, what they come to goes from there to the others.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/tcp_socket.h"

namespace viaduct {

/// What ranks say first; a process of another program says something else.
inline constexpr std::string_view kTcpProtocol = "viaduct hosts 1";

class TcpHub {
 public:
  /// Listens at `port`, at once. CommError as `listen_at`. Ranks that are not here after
  /// `join_seconds` are named to those that are.
  TcpHub(int port, int ranks, double join_seconds);
  /// Returns when all connected ranks have gone or got what was meant for them, after a few seconds
  /// at most.
  ~TcpHub();
  TcpHub(const TcpHub&) = delete;
  TcpHub& operator=(const TcpHub&) = delete;

 private:
  struct Peer {
    TcpSocket socket;
    std::string in, out;  // bytes of unfinished frames, and not yet sent
    int rank = -1;        // −1: it has not said hello
    bool over = false;    // its program is; or it was refused
    bool gone = false;
  };
  /// A call of a group, until all have come and have what they get.
  struct Call {
    std::string what;
    std::vector<std::string> texts;  // by place in the group
    std::vector<int> ranks;          // −1: has not come
    bool to_all = false;
    int here = 0;
  };
  using CallName = std::pair<std::string, int64_t>;  // group, number

  void run();
  void accept_peers();
  void read_from(Peer& peer);
  void write_to(Peer& peer);
  void handle(Peer& peer, FrameReader frame);
  void join(Peer& peer, FrameReader& frame);
  void say(Peer& peer, FrameReader& frame);
  void answer_missing(Peer& peer, FrameReader& frame);
  void pass_on(FrameReader& frame);
  void lost(Peer& peer);
  void fail(const std::string& cause);
  void send(int rank, const std::string& frame);
  void send_all(const std::string& frame);
  std::string absent() const;

  const int ranks_;
  const double join_seconds_;
  TcpSocket listener_;
  TcpSocket wake_in_, wake_out_;  // a pair: the destructor wakes the thread
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> by_rank_;
  int here_ = 0, over_ = 0;
  std::map<CallName, Call> calls_;
  std::string cause_;  // why the run has failed
  Thread thread_;      // last: it uses all others
};

}  // namespace viaduct
