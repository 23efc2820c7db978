// The settings of a run, as the dry run prints them.

#pragma once

#include <string>

#include "run/setup.h"

namespace viaduct::cli {

/// What the user set, a line each; "" for nothing.
std::string given_settings_text(const RunSetup& setup);

/// What `auto` became, on a few lines for each section, without what is off (null, false, an empty
/// list) and what another setting makes idle; "" for nothing.
std::string found_settings_text(const RunSetup& setup);

}  // namespace viaduct::cli
