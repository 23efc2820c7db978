#pragma once
// A double of NCCL for ranks that are threads with one device of the runtime's double each. Its
// functions have the library's names (nccl.h).
//
//   - A call queues two pieces of work in its stream: the rank joins, and it leaves when all ranks
//     have joined with whom it exchanges data. A seeded order of streams decides the rest, so that
//     only streams and events order an operation.
//   - Inputs are read after all have joined and before the first rank leaves; until a rank leaves,
//     its outputs are NaN.
//   - Some calls on a connection that does not block enter their stream only when the state of the
//     connection is queried, as in the library, whose host threads queue them.
//   - Sums are in the order of the ranks and rounded once (rank_order_sum.h), or along a ring,
//     where each part begins at another rank and is rounded to its format at each step.
//   - Registration of memory that is not of ncclMemAlloc is ignored from 2.24 on, without an error.
//   - Captured calls match those of the other ranks at each launch of their graph, in the order in
//     which the rank queues work on the connection, launched or called; the other ranks may launch
//     a graph or call.
//
// Errors, where the library would hang or move wrong data: calls of one connection that differ
// between its ranks in operation, size, type or root; a message whose ends differ in size; two
// streams for one connection; two ranks of a connection on one device; memory that the GPUs of
// other ranks may not access; an operation that begins before the previous one on its connection is
// complete; a connection that is destroyed while it
// works, while a graph has calls of it or while memory is registered with it; registered memory
// that is no part of an allocation when it is registered or when its registration ends; a
// configuration with fewer CTAs at most than at least; a symmetric window of memory that is not
// NCCL's, of other sizes on other ranks, or that is still there when its memory is freed; a
// collective that other ranks read or write at another place of their windows.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nccl_double {

enum class Sums { in_rank_order, along_a_ring };
struct Settings {
  Sums sums = Sums::in_rank_order;
  int version = 22809;
  bool symmetric = true;     // GPUs can map each other's memory
  uint64_t seed = 1;         // for operations that enter the stream late
  int ignoring_device = -1;  // that takes registrations of memory and does nothing
  /// Operations that a device has room for at a time, from where a rank joins until it leaves; 0:
  /// any number.
  int resident = 0;
};
/// For all threads; no connection exists.
void reset(const Settings& settings = {});

int64_t live_connections();
/// How a connection was made, with the library's numbers; what is absent was not set.
struct Config {
  int ranks = 0;
  std::optional<int> min_ctas, max_ctas, cga_cluster_size, collnet;
  std::string network = {};
  std::optional<int> policy = {};
  bool blocks = false;
  bool operator==(const Config&) const = default;
};
/// Of all connections so far that set anything, by all ranks.
std::vector<Config> configs();
/// The operations of each configuration, by all ranks: "2 all_gather" and so on, by kind.
std::map<std::string, int64_t> calls_with(const Config& config);
struct Registered {
  int64_t buffers = 0;  // so far
  int64_t calls = 0;    // whose memory was all registered with their connection
  int64_t windows = 0, calls_in_windows = 0;  // the same of symmetric windows
};
Registered registered();
/// Number of calls so far, by all ranks: collectives and messages.
int64_t calls();
/// Connections whose call number `number` (from 1) and later ones fail with a remote error.
void fail_from_call(int64_t number);

}  // namespace nccl_double
