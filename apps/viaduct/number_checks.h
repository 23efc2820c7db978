#pragma once
// What options may be, for `->check(…)`: ranges of numbers, names of files to write, texts. CLI11's
// own checks take infinity, and name the largest double in all its digits.

#include <CLI/CLI.hpp>

namespace viaduct::cli {

/// Above 0.
const CLI::Validator& positive();
/// At least 0.
const CLI::Validator& not_negative();
/// A name for a new file or folder: not empty, and short enough for what is appended to it while it
/// is written.
const CLI::Validator& new_path();
/// Not "": an empty value would pass for an option that is not given, as an unset variable of a
/// script makes it.
const CLI::Validator& not_empty();

}  // namespace viaduct::cli
