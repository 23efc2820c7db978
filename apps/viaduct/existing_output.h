#pragma once
// Outputs of commands before the work is done: what took work to make is not replaced unless the
// user says so, and the folder of a data set is made.

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

/// Makes the folder that the files of a data set will be in. IoError if it cannot be made.
void make_folder_of_dataset(const std::string& prefix);

}  // namespace viaduct::cli
