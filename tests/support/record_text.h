#pragma once
// Records as text, for comparison entry by entry.

#include <string>
#include <vector>

#include "timeline/record.h"

namespace viaduct::test {

std::string cost_text(const Cost& cost);

/// All entries with all their fields except the times of this process and counts that only timed
/// records have. Numbers of allocations are counted from the first one.
std::vector<std::string> record_entries(const StepRecord& record);

/// The first entry that differs; empty if all are equal.
std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace viaduct::test
