#pragma once
// `viaduct chat` in a terminal: what is typed is a message or a command; the answer is written as
// it grows.

#include <filesystem>
#include <set>
#include <string>

#include "inference/chat_session.h"
#include "inference/interrupts.h"
#include "terminal_lines.h"

namespace viaduct::cli {

class ChatTerminal {
 public:
  /// `session` and `interrupts`, which also interrupt its answers, must outlive it.
  ChatTerminal(ChatSession& session, Interrupts& interrupts)
      : session_(session), interrupts_(interrupts), lines_(interrupts) {}

  /// Until somebody leaves. IoError if standard output cannot be written.
  void run();

 private:
  enum class Next { goes_on, leaves };
  /// What is typed up to a line without \ at its end; false: an interruption, or the end.
  bool read_message(std::string& text, Next& next);
  Next command(const std::string& line);
  void set_system(const std::string& text);
  void set_adapter(const std::string& name);
  void save(const std::string& name);
  void ask(const std::string& text);

  ChatSession& session_;
  Interrupts& interrupts_;
  TerminalLines lines_;
  bool interrupted_ = false;  // by the last thing that was typed: another Ctrl-C leaves
  std::set<std::filesystem::path> saved_;
  int64_t answers_ = 0, tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace viaduct::cli
