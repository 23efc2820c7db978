#pragma once
// Virtual time: when everything in the records of some ranks begins and ends, on a machine that is
// described by the duration of each op and each collective.
//
// Per rank there is a host, which launches one operation after the other and waits where the record
// says so, and streams, each of which runs its work in order, once the host has
// launched it and the work that it waits for is complete. A collective begins when all its members
// that have records have reached it; members without a record arrive with those that have one. A
// message begins when both ends have arrived (rendezvous). Operations of a rank that use the same
// link at the same time share its rate. Ops take as much longer beside communication as they have
// fewer multiprocessors.
//
// In the record of a device without side streams (the cpu) the host runs the ops itself, and
// communication continues beside it until it waits.

#include <functional>
#include <vector>

#include "base/deadline.h"
#include "base/thread_pool.h"
#include "timeline/record.h"

namespace viaduct {

/// A part of one rank's record.
struct RankRecord {
  int rank = 0;  // of the run
  const StepRecord* record = nullptr;
  int64_t begin = 0, end = 0;  // positions, the second one not included
};

/// How long a collective uses links of a rank at their full rate, in seconds. Both directions, but
/// a message one: that of its end.
struct LinkUse {
  double link = 0;     // the fast links of a domain
  double network = 0;  // the NIC
};

/// Durations in seconds.
struct MachineTimes {
  std::function<double(const OpEntryRecord&)> op;  // on the device, launches not included
  std::function<double(const CollectiveRecord&)> collective;  // from when all members are there
  double launch = 0;  // of the host, for each launch of a kernel or of an operation
  /// Of the host before an op's launches, besides these; none: nothing.
  std::function<double(const OpEntryRecord&)> host = {};
  double host_wait = 0;  // from the end of what the host waits for to its next launch
  /// Factor on the duration of ops for the part that runs beside communication, where it is not
  /// known how many multiprocessors that takes.
  double slowdown = 1;
  /// Of a device; 0: not known. Ops beside communication that takes a known number of them
  /// (CollectiveRecord::multiprocessors) have the others, and those that leave some
  /// (OpEntryRecord::spare_multiprocessors) have the others all the time.
  int multiprocessors = 0;
  /// Operations of a rank that run at the same time share its links; none: each has them for
  /// itself.
  std::function<LinkUse(const CollectiveRecord&)> link_use = {};
};

struct TimeSpan {
  double begin = 0, end = 0;
  double seconds() const { return end - begin; }
};

/// A rank's times. Entries outside of the part are empty spans at 0.
struct RankTimes {
  std::vector<TimeSpan> ops;          // by index in record.ops()
  std::vector<TimeSpan> collectives;  // by index; begin: this rank has reached it
  std::vector<double> begun;          // by index: when all members had arrived
  double end = 0;                     // of everything
  double host_end = 0;                // when the host was done
};

/// CommError that names rank, group, operation and sequence if the records do not match: an
/// operation waits for members that never arrive.
/// The threads of `pool`, if there is one, share the ranks: then `machine` is called by several of
/// them at a time. The times are the same for any number of threads. DeadlineError once `deadline`
/// has passed, within the time that one rank or one computation of all times takes.
std::vector<RankTimes> resolve_times(const std::vector<RankRecord>& ranks,
                                     const MachineTimes& machine, ThreadPool* pool = nullptr,
                                     const Deadline& deadline = {});

}  // namespace viaduct
