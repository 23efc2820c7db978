#pragma once
// `viaduct plan --score FILE.csv`: predictions beside a table of published runs.

#include <string>

namespace viaduct::cli {

/// `constants`: a YAML file, or empty. ConfigError for files that are no such table; returns the
/// exit status.
int score_published(const std::string& table, const std::string& constants, bool json);

}  // namespace viaduct::cli
