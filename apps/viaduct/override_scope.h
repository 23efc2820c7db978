#pragma once
// The parts of the configuration that a subcommand reads. An override of anything else would have
// no effect, so it is an error.

#include <string>
#include <vector>

namespace viaduct::cli {

struct OverrideScope {
  std::string command;             // "viaduct generate"
  std::vector<std::string> reads;  // sections ("dist") and single fields ("train.micro_batch_size")

  /// ConfigError that lists every override of a known field that the command does not read. Unknown
  /// names are left to the reader of the configuration, which can suggest the nearest.
  void check(const std::vector<std::string>& overrides) const;
  /// For --help: "Overrides it reads: sections dist, ddp; fields …".
  std::string help() const;
};

}  // namespace viaduct::cli
