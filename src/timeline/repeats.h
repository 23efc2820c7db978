#pragma once
// Whether a micro-batch of a record may stand for others: it touches nothing of other
// micro-batches, and another one did the same, event by event.

#include <optional>
#include <string>

#include "timeline/action_log.h"
#include "timeline/record.h"

namespace viaduct {

/// For each pair in `StepActions::alike` the first difference: "micro-batches 1
/// and 2, action 3, event 17: allocate 4096 bytes of saved activations, not release …". None:
/// instances may be made. `record` has times of no device (sim). If it has the calls of its
/// streams, these are compared as well, but not whether a wait changed anything: that is decided
/// anew for each instance (timeline/stream_replay.h).
std::optional<std::string> against_repeats(const StepRecord& record, const ActionLog& log);

}  // namespace viaduct
