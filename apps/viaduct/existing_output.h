#pragma once
// Outputs that took work to make are not replaced unless the user says so.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace viaduct::cli {

/// Adds --overwrite.
void add_overwrite(CLI::App& app, bool& overwrite);

/// ConfigError, before the work, if one of `files` exists with content, unless `overwrite`. Devices
/// and pipes are written, as everywhere.
void check_new_output(const std::vector<std::filesystem::path>& files, bool overwrite);

/// The same for the files of a data set and of its mask. ConfigError also for a prefix without a
/// name.
void check_new_dataset(const std::string& prefix, bool overwrite);

}  // namespace viaduct::cli
