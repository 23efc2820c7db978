#pragma once
// Times one collective over a communicator: what `viaduct bench collective` does on every rank,
// whatever backend the ranks came from.

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace viaduct::cli {

struct CollectiveProblem {
  std::string op = "all_reduce";  // a name of collective_operations()
  /// Of the whole: the tensor that is reduced or broadcast, what all ranks gather, what one rank
  /// scatters, a message. Rounded down to whole elements for every rank.
  int64_t bytes = 0;
  DType dtype = DType::f32;
  int rounds = 9;
  bool against_mpi = false;  // ranks under MPI: MPI's own collective too, in turn
};

struct CollectiveTiming {
  double microseconds = 0;  // of one call: the median over rounds
  /// What each rank's link would have to carry in each direction, per second: bytes / time times
  /// 2 (n − 1) / n for all-reduce, (n − 1) / n where a rank gets a part of each other's, 1 for
  /// broadcast and messages, 0 for barriers.
  double bus_gbytes_per_second = 0;
  /// Bytes that all ranks together copy per second, each in a buffer of its own of the same size:
  /// what the memory does without any exchange. Measured between the rounds.
  double copy_gbytes_per_second = 0;
  /// Of one call of MPI's own collective on the same buffers; 0 where it was not called.
  double mpi_own_microseconds = 0;
};

/// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "barrier".
const std::vector<std::string>& collective_operations();

/// Called by every rank with the same problem; the result is rank 0's.
CollectiveTiming time_collective(Communicator& group, const CollectiveProblem& problem);

}  // namespace viaduct::cli
