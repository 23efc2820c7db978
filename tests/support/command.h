#pragma once
// The command-line program run to its end by a shell, with what it printed.

#include <string>
#include <string_view>

#include "support/paths.h"

namespace viaduct::test {

struct CommandResult {
  int status = -1;  // exit status
  std::string out, err;
};

/// Runs a shell command with `input` on standard input.
CommandResult run_command(const std::string& command, std::string_view input = "");

/// `viaduct ARGUMENTS`, as a shell reads them.
inline CommandResult run_viaduct(const std::string& arguments, std::string_view input = "") {
  return run_command(viaduct_binary() + " " + arguments, input);
}

}  // namespace viaduct::test
