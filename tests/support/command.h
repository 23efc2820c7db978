#pragma once
// Runs the command-line program in a shell and keeps its output.

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

/// Runs `viaduct ARGUMENTS` in a shell.
inline CommandResult run_viaduct(const std::string& arguments, std::string_view input = "") {
  return run_command(viaduct_binary() + " " + arguments, input);
}

}  // namespace viaduct::test
