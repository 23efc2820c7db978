#pragma once
// Changes of settings that would make a run fit, found by dry runs.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "run/setup.h"

namespace viaduct {

/// Settings that together bring a rank below a limit.
struct FittingSettings {
  std::string settings;  // as overrides of the command line
  int64_t bytes = 0;     // of the rank with these settings, by its plan
};

inline constexpr double kFittingSeconds = 20;

/// At most `most` sets of changes with which the memory of `rank` is at most `limit_bytes`: those
/// with the fewest changes first, and among these the ones that cost the least time. No set
/// contains all kinds of changes of another one. Settings that the run already has, or that it does
/// not allow, are not tried. The search ends after `seconds`.
std::vector<FittingSettings> changes_that_fit(const RunSetup& setup, GlobalRank rank,
                                              int64_t limit_bytes, size_t most = 3,
                                              double seconds = kFittingSeconds);

}  // namespace viaduct
