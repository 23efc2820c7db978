#pragma once
// The schedules of learning rate and weight decay in a checkpoint, and which ones a run goes on
// with.

#include <optional>
#include <string>

#include "optim/schedules.h"

namespace viaduct {

/// `state`, the JSON of a training state, with the schedules beside it.
std::string with_schedules(const std::string& state, const Schedules& schedules);

/// The schedules in a checkpoint's state; nothing where it has none (of an earlier version).
/// IoError naming `where` if they are no schedules.
std::optional<Schedules> stored_schedules(const std::string& state, const std::string& where);

/// What a run that resumes goes on with: `configured`, or, with use_checkpoint_opt_param_scheduler,
/// `stored`. ConfigError that lists what differs where the configuration neither overrides the
/// checkpoint's nor yields to it, or if there is nothing stored to go by.
Schedules resume_schedules(const Schedules& configured, const std::optional<Schedules>& stored,
                           const SchedulerConfig& config, const std::string& where);

}  // namespace viaduct
