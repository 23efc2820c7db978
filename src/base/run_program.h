#pragma once
// Another program of the machine, run to its end without a shell.

#include <string>
#include <vector>

namespace viaduct {

struct ProgramOutcome {
  bool in_time = true;  // false: it was killed when its time was over
  int status = 0;       // its exit status; 128 + the signal that ended it
  std::string output;   // its standard output and error together, at most 64 KiB
  bool succeeded() const { return in_time && status == 0; }
};

/// Runs a program that PATH has, with its arguments behind its name and without input. It and the
/// processes that it starts are killed after `seconds`. IoError with the system's reason if it
/// cannot be started.
ProgramOutcome run_program(const std::vector<std::string>& arguments, double seconds);

}  // namespace viaduct
