#pragma once
// What options may be, for `->check(…)`: ranges of numbers, names of files to write. CLI11's own
// checks take infinity, and name the largest double in all its digits.

#include <CLI/CLI.hpp>

namespace viaduct::cli {

/// Above 0.
const CLI::Validator& positive();
/// At least 0.
const CLI::Validator& not_negative();
/// A name for a new file or folder: not empty, and short enough for what is appended to it while it
/// is written.
const CLI::Validator& new_path();

}  // namespace viaduct::cli
