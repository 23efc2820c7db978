#pragma once
// The conversations that a run reads, against its rows.

#include <string>
#include <vector>

#include "run/setup.h"

namespace viaduct {

/// `check_conversations` (data/conversation_check.h) of the splits that a run of this setup
/// reads: ConfigError for conversations that do not fit, and for splits without a
/// scored token. Runs, dry runs and plans call it before anything else, and so say the same.
std::vector<std::string> check_conversations(const RunSetup& setup);

}  // namespace viaduct
