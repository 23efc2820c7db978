#include "comm/tcp/tcp_hub.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/error.h"

namespace viaduct {
namespace {

constexpr int kPollMilliseconds = 50;
/// Time of the last frames to their ranks, when rank 0's process ends.
constexpr double kFlushSeconds = 5;
constexpr uint32_t kMostHelloBytes = 4096;

}  // namespace

TcpHub::TcpHub(int port, int ranks, double join_seconds)
    : ranks_(ranks),
      join_seconds_(join_seconds),
      listener_(listen_at(port)),
      by_rank_(static_cast<size_t>(ranks)) {
  int pair[2];
  VIADUCT_CHECK(CommError, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0,
                "hosts over TCP: the system gives no pair of sockets");
  wake_in_ = TcpSocket(pair[0]);
  wake_out_ = TcpSocket(pair[1]);
  listener_.do_not_block();
  thread_ = Thread([this] { run(); });
}

TcpHub::~TcpHub() {
  wake_out_.shut_down();
  thread_.join();
}

void TcpHub::run() {
  const double begin = steady_seconds();
  double ends = 0;     // when to stop at the latest, once rank 0 ends
  bool quiet = false;  // nobody said anything since
  while (true) {
    std::vector<pollfd> entries{{listener_.handle(), POLLIN, 0},
                                {ends > 0 ? -1 : wake_in_.handle(), POLLIN, 0}};
    bool unsent = false;
    for (const auto& peer : peers_) {
      const bool writes = !peer->out.empty();
      unsent = unsent || writes;
      entries.push_back(
          {peer->socket.handle(), static_cast<int16_t>(POLLIN | (writes ? POLLOUT : 0)), 0});
    }
    if (ends > 0 && ((quiet && !unsent) || steady_seconds() > ends)) return;
    if (::poll(entries.data(), entries.size(), kPollMilliseconds) < 0 && errno != EINTR) return;
    quiet = ends > 0;
    for (size_t i = 0; i < peers_.size(); ++i) {
      quiet = quiet && entries[i + 2].revents == 0;
      if (entries[i + 2].revents & (POLLIN | POLLERR | POLLHUP)) read_from(*peers_[i]);
      if (entries[i + 2].revents & POLLOUT) write_to(*peers_[i]);
    }
    std::erase_if(peers_, [](const auto& peer) {
      return peer->gone || (peer->rank < 0 && peer->over && peer->out.empty());
    });
    if (entries[0].revents & POLLIN) accept_peers();
    if ((entries[1].revents & (POLLIN | POLLHUP)) && ends == 0)
      ends = steady_seconds() + kFlushSeconds;
    if (here_ < ranks_ && cause_.empty() && steady_seconds() - begin > join_seconds_)
      fail(fmt::format("{} of {} did not come in {:g} s (dist.distributed_timeout_minutes)",
                       absent(), ranks_, join_seconds_));
  }
}

void TcpHub::accept_peers() {
  while (true) {
    const int handle = ::accept4(listener_.handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (handle < 0) return;
    auto peer = std::make_unique<Peer>();
    peer->socket = TcpSocket(handle);
    peer->socket.do_not_block();
    const int on = 1;
    ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(handle, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    peers_.push_back(std::move(peer));
  }
}

void TcpHub::read_from(Peer& peer) {
  if (!peer.socket.receive_some(peer.in)) return lost(peer);
  try {
    // Whoever has not said hello is a stranger, for whom no memory is held.
    const auto most = [&] { return peer.rank < 0 ? kMostHelloBytes : kMostFrameBytes; };
    for (std::string frame; !peer.gone && take_frame(peer.in, frame, most());)
      handle(peer, FrameReader(frame));
  } catch (const CommError&) {  // no rank of a run
    lost(peer);
  }
}

void TcpHub::write_to(Peer& peer) {
  const ssize_t sent = ::send(peer.socket.handle(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
  if (sent > 0) peer.out.erase(0, static_cast<size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lost(peer);
}

void TcpHub::handle(Peer& peer, FrameReader frame) {
  VIADUCT_CHECK(CommError, (peer.rank < 0) == (frame.kind() == FrameKind::hello) && !peer.over,
                "hosts over TCP: a message out of turn");
  switch (frame.kind()) {
    case FrameKind::hello:
      return join(peer, frame);
    case FrameKind::said:
      return say(peer, frame);
    case FrameKind::missing:
      return answer_missing(peer, frame);
    case FrameKind::merged:
      return pass_on(frame);
    case FrameKind::failed:
      return fail(frame.text());
    case FrameKind::bye:
      peer.over = true;
      if (++over_ == ranks_) send_all(FrameWriter(FrameKind::bye).take());
      return;
    case FrameKind::welcome:
    case FrameKind::texts:
      break;
  }
  viaduct::fail<CommError>("hosts over TCP: a message of an unknown kind");
}

void TcpHub::join(Peer& peer, FrameReader& frame) {
  const std::string protocol = frame.text();
  VIADUCT_CHECK(CommError, protocol == kTcpProtocol, "hosts over TCP: another protocol");
  const int64_t rank = frame.number(), ranks = frame.number();
  std::string why = cause_;
  if (ranks != ranks_) {
    why = fmt::format("rank {} expects {} ranks, rank 0 {} (WORLD_SIZE)", rank, ranks, ranks_);
  } else if (rank < 0 || rank >= ranks_ || by_rank_[static_cast<size_t>(rank)] != nullptr) {
    why = fmt::format("two processes are rank {} of {} (RANK)", rank, ranks_);
  }
  if (!why.empty()) {
    peer.over = true;
    peer.out += FrameWriter(FrameKind::failed).text(why).take();
    return;
  }
  peer.rank = static_cast<int>(rank);
  by_rank_[static_cast<size_t>(rank)] = &peer;
  if (++here_ == ranks_) send_all(FrameWriter(FrameKind::welcome).take());
}

void TcpHub::say(Peer& peer, FrameReader& frame) {
  CallName name{frame.text(), 0};
  name.second = frame.number();
  const int64_t place = frame.number(), size = frame.number(), to_all = frame.number();
  const std::string what = frame.text();
  VIADUCT_CHECK(CommError, size > 0 && size <= ranks_ && place >= 0 && place < size,
                "hosts over TCP: a group of {} ranks", size);
  Call& call = calls_[name];
  if (call.ranks.empty()) {
    call.what = what;
    call.to_all = to_all != 0;
    call.texts.resize(static_cast<size_t>(size));
    call.ranks.assign(static_cast<size_t>(size), -1);
  }
  if (call.what != what || call.ranks.size() != static_cast<size_t>(size)) {
    return fail(
        fmt::format("rank {} calls {} where another rank calls {}", peer.rank, what, call.what));
  }
  call.texts[static_cast<size_t>(place)] = frame.text();
  call.ranks[static_cast<size_t>(place)] = peer.rank;
  if (++call.here < size) return;
  FrameWriter all(FrameKind::texts);
  all.text(name.first).number(name.second).number(size);
  for (const std::string& text : call.texts) all.text(text);
  send(call.ranks.front(), all.take());
  call.texts.clear();
  if (!call.to_all) calls_.erase(name);
}

void TcpHub::pass_on(FrameReader& frame) {
  CallName name{frame.text(), 0};
  name.second = frame.number();
  const auto found = calls_.find(name);
  VIADUCT_CHECK(CommError, found != calls_.end(), "hosts over TCP: an answer to no call");
  const std::string merged =
      FrameWriter(FrameKind::merged).text(name.first).number(name.second).text(frame.text()).take();
  for (size_t place = 1; place < found->second.ranks.size(); ++place)
    send(found->second.ranks[place], merged);
  calls_.erase(found);
}

void TcpHub::answer_missing(Peer& peer, FrameReader& frame) {
  CallName name{frame.text(), 0};
  name.second = frame.number();
  FrameWriter answer(FrameKind::missing);
  answer.text(name.first).number(name.second);
  std::string places;
  if (const auto found = calls_.find(name); found != calls_.end()) {
    const std::vector<int>& ranks = found->second.ranks;
    for (size_t place = 0; place < ranks.size(); ++place)
      if (ranks[place] < 0) places += std::to_string(place) + " ";
  }
  peer.out += answer.text(places).take();
}

void TcpHub::lost(Peer& peer) {
  peer.gone = true;
  if (peer.rank < 0) return;
  by_rank_[static_cast<size_t>(peer.rank)] = nullptr;
  if (!peer.over)
    fail(fmt::format("rank {}: its process has ended or cannot be reached", peer.rank));
}

void TcpHub::fail(const std::string& cause) {
  if (!cause_.empty()) return;
  cause_ = cause;
  send_all(FrameWriter(FrameKind::failed).text(cause).take());
}

void TcpHub::send(int rank, const std::string& frame) {
  if (Peer* const peer = by_rank_[static_cast<size_t>(rank)]; peer != nullptr) peer->out += frame;
}

void TcpHub::send_all(const std::string& frame) {
  for (int rank = 0; rank < ranks_; ++rank) send(rank, frame);
}

std::string TcpHub::absent() const {
  constexpr int kMostNamed = 16;
  std::string names;
  int count = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (by_rank_[static_cast<size_t>(rank)] != nullptr) continue;
    if (++count <= kMostNamed) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  if (count > kMostNamed) names += fmt::format(" and {} more", count - kMostNamed);
  return fmt::format("{} {}", count == 1 ? "rank" : "ranks", names);
}

}  // namespace viaduct
