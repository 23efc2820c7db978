#pragma once
// Which streams of a GPU's communication go before computation (dist.high_priority_stream_groups).

#include <functional>
#include <string_view>

#include "comm/dist_config.h"
#include "config/problems.h"

namespace viaduct {

/// Whether a stream of a device has the highest priority, by its name. A named group's streams have
/// it, and those of its parts ("dp_cp": also "dp_cp.inner"); `ep` stands for all groups that
/// exchange tokens between experts. Streams of communication of other groups have none; streams
/// that communicate nothing keep theirs. Empty if the setting is null: all have it. Adds names of
/// no group to `problems`, with the nearest.
std::function<bool(std::string_view)> stream_priority(const DistConfig& config, Problems& problems);
/// ConfigError with all problems.
std::function<bool(std::string_view)> stream_priority(const DistConfig& config);

}  // namespace viaduct
