#pragma once
// What a subcommand reads of the configuration. An override of anything else would do nothing, so
// it is an error.

#include <string>
#include <vector>

namespace viaduct::cli {

struct OverrideScope {
  std::string command;             // "viaduct generate"
  std::vector<std::string> reads;  // sections ("dist") and single fields ("train.micro_batch_size")

  /// ConfigError that lists every override of a known field that the command does not read. Names
  /// that nobody knows are left to who reads the configuration, and knows what to suggest.
  void check(const std::vector<std::string>& overrides) const;
  /// For --help: "Overrides it reads: sections dist, ddp; fields …".
  std::string help() const;
};

}  // namespace viaduct::cli
