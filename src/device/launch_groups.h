#pragma once
// Groups of launches, of devices that have them: what a part of the program gives to compute is
// kept on the host and given to the device together. If the same launches, with the same arguments,
// were given before, they are one launch of a graph.

#include "device/device.h"

namespace viaduct {

class LaunchGroups {
 public:
  virtual ~LaunchGroups() = default;

  /// A step begins. Graphs that the one before it did not launch are dropped. `captures`: launches
  /// that come again become a graph; otherwise they are only noted.
  virtual void begin_step(bool captures) = 0;
  /// Begins a group, or goes on with the one that is open. Its launches for compute are given to
  /// the device in their order, at its end and before anything else that the program gives to the
  /// device or asks of it (a wait, a copy, work of another stream), where a new part of the group
  /// begins. Memory of launches that are kept is that of the program: it may be freed, and used
  /// again by later launches. `first_part`: the group ends where its first part does.
  virtual void begin_group(bool first_part) = 0;
  virtual void end_group() = 0;
  /// Forgets what is kept, after an error.
  virtual void drop_group() noexcept = 0;
};

/// Null for a device that launches at once.
inline LaunchGroups* launch_groups(Device& device) {
  return dynamic_cast<LaunchGroups*>(&device);
}

/// Of a part of a group in a record, behind its ops, which have no launches of their own: the
/// launches that the host made for them, one if it was that of a graph.
inline OpEntryRecord part_launch(int64_t stream_position, bool graph, int launches) {
  OpEntryRecord entry{.op = graph ? "graph" : "launch",
                      .kernel = graph ? "captured work" : "one by one",
                      .launches = launches,
                      .cost = {}};
  entry.stream_position = stream_position;
  return entry;
}

}  // namespace viaduct
