#pragma once
// A TCP socket of the system.

#include <string>
#include <string_view>
#include <utility>

namespace viaduct {

/// Where rank 0 listens for the others.
struct TcpAddress {
  std::string host;
  int port = 0;
};
/// "node1:29500".
std::string to_text(const TcpAddress& address);

class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int handle) : handle_(handle) {}
  ~TcpSocket();
  TcpSocket(TcpSocket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  int handle() const { return handle_; }
  bool open() const { return handle_ >= 0; }
  /// Calls return at once from here on, with what there is.
  void do_not_block();
  /// Blocks until all is with the system; false if the other end is gone.
  bool send_all(std::string_view bytes);
  /// Appends what has come; blocks until there is something. False if the other end is gone.
  bool receive_some(std::string& bytes);
  /// Ends both directions: who blocks in a call of this socket returns.
  void shut_down();

 private:
  int handle_ = -1;
};

/// Listens at the port on all of this machine's addresses. CommError that names the port if it
/// cannot, as where another program has it.
TcpSocket listen_at(int port);
/// Tries until somebody listens there. CommError with the last reason after `timeout_seconds`.
TcpSocket connect_to(const TcpAddress& address, double timeout_seconds);

}  // namespace viaduct
