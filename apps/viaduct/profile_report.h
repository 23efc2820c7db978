#pragma once
// The table of `bench step --profile`.

#include <nlohmann/json_fwd.hpp>

#include "report/machine_peaks.h"
#include "timeline/profile.h"

namespace viaduct::cli {

/// Phases with their rows, in seconds per step; shares are of the recorded steps.
void print_profile(const Profile& profile, const MeasuredPeaks& peaks);

/// {"steps", "step_seconds" (mean of the recorded ones), "peaks": {…}, "rows": [{"phase", "kind",
/// "name", "kernel", "calls", "seconds", "share", "flops", "bytes", "gflops_per_second",
/// "gbytes_per_second", "roofline_fraction"}], "over_phases": [the same without "phase"]}, all for
/// one step; the seconds of `rows` add up to step_seconds.
nlohmann::ordered_json profile_json(const Profile& profile, const MeasuredPeaks& peaks);

}  // namespace viaduct::cli
