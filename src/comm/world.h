#pragma once
// How ranks come into being: as threads of this process, or as processes that a launcher started.
// Either way a rank's program is one function of its world communicator.

#include <memory>

#include "base/function_ref.h"
#include "comm/communicator.h"

namespace viaduct {

struct WorldOptions {
  /// An operation that waits longer for a rank is a CommError that names who did not come.
  double timeout_seconds = 600;
  /// Threads that a rank computes with. Where all ranks' together are more than the cores, a rank
  /// that waits gives its core away at once.
  int threads_per_rank = 1;
};

using RankMain = FunctionRef<void(std::shared_ptr<Communicator> world)>;

/// Runs `rank_main` once for each of `ranks` ranks, each on a thread of its own (rank 0 on the
/// calling one), and returns when all have ended. If a rank throws, all others leave their
/// operations, and the first cause is thrown here.
void run_thread_ranks(int ranks, const WorldOptions& options, RankMain rank_main);

}  // namespace viaduct
