#pragma once
// Ranks that are processes which torchrun, or anybody by hand, has started: their hosts talk over
// TCP. What devices exchange goes over a communicator on top (NCCL's).

#include "comm/tcp/tcp_socket.h"
#include "comm/world.h"

namespace viaduct {

/// The place of a process in a run.
struct TcpPlace {
  int rank = 0, ranks = 1;
  TcpAddress meeting;  // rank 0 listens there, on all addresses of its machine
};

/// Runs `rank_main` as this process's rank; several of them may be threads of one process. Returns
/// when all ranks have ended. The world has hosts and barriers; other operations are CommErrors. If
/// a rank throws, its own exception is thrown in its process, and a CommError with the cause in all
/// others. CommError if ranks do not come in `options.timeout_seconds`, with their numbers, or if
/// rank 0 cannot listen.
void run_tcp_rank(const TcpPlace& place, const WorldOptions& options, RankMain rank_main);

}  // namespace viaduct
