#include "comm/tcp/tcp_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace viaduct {
namespace {

constexpr auto kRetryInterval = std::chrono::milliseconds(100);
constexpr int kMostWaiting = 1024;  // connections that are not accepted yet

std::string reason() {
  return std::strerror(errno);
}

void switch_on(int handle, int level, int option) {
  const int on = 1;
  static_cast<void>(::setsockopt(handle, level, option, &on, sizeof on));
}

/// One attempt at one address; the reason goes to `why`. Others may be tried when
/// `patience_seconds` are over.
TcpSocket attempt(const addrinfo& at, double patience_seconds, std::string& why) {
  TcpSocket socket(::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, at.ai_protocol));
  if (!socket.open()) {
    why = reason();
    return {};
  }
  socket.do_not_block();
  if (::connect(socket.handle(), at.ai_addr, at.ai_addrlen) != 0) {
    pollfd entry{socket.handle(), POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof error;
    if (error == EINPROGRESS) {
      error = ::poll(&entry, 1, static_cast<int>(patience_seconds * 1000)) > 0 ? 0 : ETIMEDOUT;
      if (error == 0) ::getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) {
      why = std::strerror(error);
      return {};
    }
  }
  ::fcntl(socket.handle(), F_SETFL, ::fcntl(socket.handle(), F_GETFL) & ~O_NONBLOCK);
  switch_on(socket.handle(), IPPROTO_TCP, TCP_NODELAY);
  switch_on(socket.handle(), SOL_SOCKET, SO_KEEPALIVE);
  return socket;
}

}  // namespace

std::string to_text(const TcpAddress& address) {
  return address.host + ":" + std::to_string(address.port);
}

TcpSocket::~TcpSocket() {
  if (open()) ::close(handle_);
}

void TcpSocket::do_not_block() {
  ::fcntl(handle_, F_SETFL, ::fcntl(handle_, F_GETFL) | O_NONBLOCK);
}

bool TcpSocket::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool TcpSocket::receive_some(std::string& bytes) {
  std::array<char, 65536> part;
  while (true) {
    const ssize_t got = ::recv(handle_, part.data(), part.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    bytes.append(part.data(), static_cast<size_t>(got));
    return true;
  }
}

void TcpSocket::shut_down() {
  if (open()) ::shutdown(handle_, SHUT_RDWR);
}

TcpSocket listen_at(int port) {
  // IPv6 with IPv4 in it where the system has it, else IPv4.
  TcpSocket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_addr = in6addr_any;
  both.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in old{};
  old.sin_family = AF_INET;
  old.sin_port = both.sin6_port;
  const bool v6 = socket.open();
  if (v6) {
    const int off = 0;
    ::setsockopt(socket.handle(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else {
    socket = TcpSocket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  switch_on(socket.handle(), SOL_SOCKET, SO_REUSEADDR);
  const int bound =
      v6 ? ::bind(socket.handle(), reinterpret_cast<const sockaddr*>(&both), sizeof both)
         : ::bind(socket.handle(), reinterpret_cast<const sockaddr*>(&old), sizeof old);
  VIADUCT_CHECK(CommError, bound == 0 && ::listen(socket.handle(), kMostWaiting) == 0,
                "rank 0 cannot listen at port {}: {}; expected a port that no other program has "
                "(MASTER_PORT, the same for all ranks)",
                port, reason());
  return socket;
}

TcpSocket connect_to(const TcpAddress& address, double timeout_seconds) {
  const double begin = steady_seconds();
  std::string why;
  while (true) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, [](addrinfo* list) {
      if (list != nullptr) ::freeaddrinfo(list);
    });
    if (error != 0) why = ::gai_strerror(error);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      const double left = timeout_seconds - (steady_seconds() - begin);
      if (TcpSocket socket = attempt(*at, std::max(left, 0.1), why); socket.open()) return socket;
    }
    VIADUCT_CHECK(CommError, steady_seconds() - begin < timeout_seconds,
                  "no connection to rank 0 at {} in {:g} s: {}; expected the machine and port of "
                  "rank 0 (MASTER_ADDR, MASTER_PORT)",
                  to_text(address), timeout_seconds, why);
    std::this_thread::sleep_for(kRetryInterval);
  }
}

}  // namespace viaduct
