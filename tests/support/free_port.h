#pragma once
// A free port, for tests that listen.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "comm/tcp/tcp_socket.h"

namespace viaduct::test {

/// A port of this machine that no program uses now.
inline int free_port() {
  const TcpSocket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(socket.handle(), reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(::getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  return ntohs(at.sin_port);
}

}  // namespace viaduct::test
