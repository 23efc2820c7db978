#pragma once
// The command-line program run to its end by a shell, with what it printed.

#include <string>
#include <string_view>

namespace viaduct::test {

struct CommandResult {
  int status = -1;  // exit status
  std::string out, err;
};

/// Runs a shell command with `input` on standard input.
CommandResult run_command(const std::string& command, std::string_view input = "");

#ifdef VIADUCT_BINARY
/// `viaduct ARGUMENTS`, as a shell reads them.
inline CommandResult run_viaduct(const std::string& arguments, std::string_view input = "") {
  return run_command(std::string(VIADUCT_BINARY) + " " + arguments, input);
}
#endif

}  // namespace viaduct::test
