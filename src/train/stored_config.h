#pragma once
// The config.yaml of a checkpoint: the settings of the run that saved it, by the names of its
// version of the program.

#include <filesystem>
#include <string>
#include <vector>

#include "config/load.h"

namespace viaduct {

/// The text for a checkpoint: its first line says which version wrote it.
std::string stored_config_text(const std::string& yaml);

/// Reads `file` into the members behind `schema`. A line in `unread` for each setting that this
/// version does not know, or whose value it does not have: which, the version that wrote it where
/// the file says it, and the nearest name here.
ConfigOutcome read_stored_config(const Schema& schema, const std::filesystem::path& file,
                                 std::vector<std::string>& unread);

}  // namespace viaduct
