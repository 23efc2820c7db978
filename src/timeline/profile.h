#pragma once
// Where the time of recorded steps was spent: a table by phase, op and kernel whose rows add up to
// the steps.

#include <string>
#include <vector>

#include "timeline/roofline.h"

namespace viaduct {

/// What a row of the table counts.
enum class ProfileKind {
  op,             // an op's time, less that of ops inside it
  communication,  // the host waited for collectives or messages
  host,           // the rest of the phase: allocation, dispatch, copies, cutting of batches
};

struct ProfileRow {
  std::string phase;  // "forward", "backward", "optimizer", …; "step" outside of phases
  ProfileKind kind = ProfileKind::op;
  std::string name;    // of the op, or of the operation and its group; "host"
  std::string kernel;  // of ops
  int64_t calls = 0;
  double seconds = 0;
  Cost cost;                    // of ops; for communication, bytes_written is the bytes moved
  double roofline_seconds = 0;  // 0: unknown

  double flops_per_second() const { return seconds > 0 ? cost.total_flops() / seconds : 0; }
  double bytes_per_second() const;
  /// 1: at the machine's limit; above it, operands came from caches.
  double roofline_fraction() const { return seconds > 0 ? roofline_seconds / seconds : 0; }
};

struct Profile {
  int64_t steps = 0;
  double seconds = 0;            // of all steps together
  std::vector<ProfileRow> rows;  // by phase in order of appearance, then longest first
};

/// The table of all steps (scopes of kind `step`) in `record`; work outside of steps is left out.
/// Sums over the steps, not means.
Profile profile(const StepRecord& record, const MachinePeaks& peaks);

/// Rows of the same op and kernel added up over the phases, longest first.
std::vector<ProfileRow> over_phases(const Profile& profile);

}  // namespace viaduct
