#pragma once
// The parts of the configuration that a subcommand reads. An override of anything else would have
// no effect, so it is an error.

#include <map>
#include <string>
#include <vector>

namespace viaduct::cli {

struct OverrideScope {
  std::string command;             // "viaduct generate"
  std::vector<std::string> reads;  // sections ("dist") and single fields ("train.micro_batch_size")
  /// Why a field is not read, in place of what is.
  std::map<std::string, std::string> reasons = {};

  /// ConfigError that lists every override of a known field that the command does not read. Unknown
  /// names are left to the reader of the configuration, which can suggest the nearest.
  void check(const std::vector<std::string>& overrides) const;
  /// For --help: "Overrides it reads: sections dist, ddp; fields …".
  std::string help() const;
};

}  // namespace viaduct::cli
