#pragma once
// Ranges of options, for `->check(…)`. CLI11's own checks take infinity, and name the largest
// double in all its digits.

#include <CLI/CLI.hpp>

namespace viaduct::cli {

/// Above 0.
const CLI::Validator& positive();
/// At least 0.
const CLI::Validator& not_negative();

}  // namespace viaduct::cli
