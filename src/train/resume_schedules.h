#pragma once
// The schedules of learning rate and weight decay in a checkpoint, and the choice between them and
// the configured ones.

#include <optional>
#include <string>

#include "optim/schedules.h"

namespace viaduct {

/// `state`, the JSON of a training state, with the schedules added.
std::string with_schedules(const std::string& state, const Schedules& schedules);

/// The schedules in a checkpoint's state; nothing where it has none (of an earlier version).
/// IoError naming `where` if they are malformed.
std::optional<Schedules> stored_schedules(const std::string& state, const std::string& where);

/// The schedules of a resumed run: `configured`, or, with use_checkpoint_opt_param_scheduler,
/// `stored`. ConfigError listing the differences if neither override is set, or if the checkpoint
/// has no schedules to use.
Schedules resume_schedules(const Schedules& configured, const std::optional<Schedules>& stored,
                           const SchedulerConfig& config, const std::string& where);

}  // namespace viaduct
