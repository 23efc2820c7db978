#pragma once
// Lines that somebody types, and Ctrl-C while they are typed.

#include <string>

#include "inference/interrupts.h"

namespace viaduct::cli {

class TerminalLines {
 public:
  /// Reads standard input. `interrupts` must outlive it.
  explicit TerminalLines(Interrupts& interrupts) : interrupts_(interrupts) {}

  enum class Event { line, interrupt, end };
  /// Waits for a line (`line`, without its end), for Ctrl-C, which is cleared, or for the end of
  /// the input (Ctrl-D on an empty line). IoError if the input cannot be read.
  Event next();
  const std::string& line() const { return line_; }

 private:
  bool take_line();

  Interrupts& interrupts_;
  std::string read_;  // beyond the line
  std::string line_;
  bool ended_ = false;
};

}  // namespace viaduct::cli
