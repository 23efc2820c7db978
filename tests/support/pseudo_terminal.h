#pragma once
// Runs a program in a pseudo terminal, as somebody at a keyboard sees it.

#include <sys/types.h>

#include <string>

namespace viaduct::test {

class PseudoTerminal {
 public:
  /// Starts a shell command. Lines are echoed, Ctrl-C ("\x03") is a signal, Ctrl-D ("\x04") the
  /// end.
  explicit PseudoTerminal(const std::string& command);
  /// Kills the program if it has not ended.
  ~PseudoTerminal();
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  void type(const std::string& keys);
  /// Reads on until `text` has been shown: everything up to and with it, since the last call. What
  /// was read before the program ended, if it never is.
  std::string until(const std::string& text);
  /// The same until at least `bytes` bytes have been shown.
  std::string until_bytes(size_t bytes);
  /// Waits for the end of the program: its exit status, 128 + signal if one ended it.
  int wait();

 private:
  bool read_more();

  int descriptor_ = -1;
  pid_t child_ = -1;
  std::string read_;
};

}  // namespace viaduct::test
