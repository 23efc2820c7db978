#pragma once
// Times one collective over a communicator: the work of `viaduct bench collective` on every rank,
// with any backend.

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace viaduct::cli {

struct CollectiveProblem {
  std::string op = "all_reduce";  // a name of collective_operations()
  /// Total size: the tensor that is reduced or broadcast, what all ranks gather, what one rank
  /// scatters, a message. Rounded down to whole elements for every rank.
  int64_t bytes = 0;
  DType dtype = DType::f32;
  int rounds = 9;
  bool against_mpi = false;  // ranks under MPI: also time MPI's own collective, in turn
};

struct CollectiveTiming {
  double microseconds = 0;  // of one call: the median over rounds
  /// The bandwidth that each rank's link needs in each direction: bytes / time times 2 (n − 1) / n
  /// for all-reduce, (n − 1) / n for operations in which a rank gets a part of every other's, 1 for
  /// broadcast and messages, 0 for barriers.
  double bus_gbytes_per_second = 0;
  /// Bytes that all ranks together copy per second, each in its own buffer of the same size: the
  /// memory's rate without any exchange. Measured between the rounds.
  double copy_gbytes_per_second = 0;
  /// For one call of MPI's own collective on the same buffers; 0 if it was not called.
  double mpi_own_microseconds = 0;
};

/// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "barrier".
const std::vector<std::string>& collective_operations();

/// All ranks call it with the same problem; rank 0 gets the result.
CollectiveTiming time_collective(Communicator& group, const CollectiveProblem& problem);

}  // namespace viaduct::cli
