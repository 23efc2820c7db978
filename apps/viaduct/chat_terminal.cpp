#include "chat_terminal.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/output_file.h"
#include "base/terminal_text.h"
#include "base/units.h"
#include "standard_streams.h"

namespace viaduct::cli {
namespace {

constexpr const char* kHelp =
    "/reset             begins a new conversation; the system message stays\n"
    "/system TEXT       begins a new conversation with this system message; alone: says the one\n"
    "/adapter NAME      the adapter of --adapter NAME=DIR that answers from here on; none: none "
    "of\n"
    "                   them; alone: says the one\n"
    "/save FILE.jsonl   writes the conversation as a line of JSON\n"
    "/exit              leaves, like Ctrl-D, or Ctrl-C twice\n"
    "Ctrl-C stops an answer. \\ at the end of a line continues the message on the next one; //\n"
    "begins a message with one /.\n";

// A terminal keeps so many bytes of a line that is typed, and drops the others.
constexpr size_t kLineBytes = 4095;

/// Without the white space around it.
std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

bool ChatTerminal::read_message(std::string& text, Next& next) {
  text.clear();
  next = Next::goes_on;
  say("> ");
  while (true) {
    switch (lines_.next()) {
      case TerminalLines::Event::end:
        say("\n");
        next = Next::leaves;
        return false;
      case TerminalLines::Event::interrupt:
        say("\n");
        if (interrupted_) next = Next::leaves;
        if (!interrupted_) say("(Ctrl-C once more leaves, like Ctrl-D and /exit)\n");
        interrupted_ = true;
        return false;
      case TerminalLines::Event::line:
        break;
    }
    interrupted_ = false;
    if (lines_.line().size() >= kLineBytes) {
      say("(a line has at most {} bytes in a terminal, and this one may have lost its end: the "
          "message is left out; \\ at the end of a line continues it on the next one)\n",
          kLineBytes);
      return false;
    }
    text += lines_.line();
    if (!text.ends_with('\\')) return true;
    text.back() = '\n';
    say(". ");
  }
}

void ChatTerminal::run() {
  std::string text;
  Next next = Next::goes_on;
  while (next == Next::goes_on) {
    if (!read_message(text, next)) continue;
    if (text.starts_with("//")) {
      ask(text.substr(1));
    } else if (text.starts_with('/')) {
      next = command(text);
    } else if (!trimmed(text).empty()) {
      ask(text);
    }
  }
  if (answers_ > 0 && seconds_ > 0) {
    say("{}, {}, {:.1f} tokens/s\n", counted(answers_, "answer"), counted(tokens_, "token"),
        static_cast<double>(tokens_) / seconds_);
  }
}

ChatTerminal::Next ChatTerminal::command(const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string name = line.substr(0, end), rest = trimmed(line.substr(end));
  if (name == "/exit" || name == "/quit") return Next::leaves;
  if (name == "/help") {
    say("{}", kHelp);
  } else if (name == "/reset") {
    session_.reset();
    say("(a new conversation)\n");
  } else if (name == "/system") {
    set_system(rest);
  } else if (name == "/adapter") {
    set_adapter(rest);
  } else if (name == "/save") {
    save(rest);
  } else {
    say("(there is no command {}; /help lists them, // begins a message with one /)\n",
        terminal_text(name));
  }
  return Next::goes_on;
}

void ChatTerminal::set_system(const std::string& text) {
  if (text.empty()) {
    const std::string& now = session_.system();
    if (now.empty()) say("(no system message)\n");
    if (!now.empty()) say("(the system message is: {})\n", terminal_text(now));
    return;
  }
  try {
    session_.set_system(text);
  } catch (const ConfigError& refused) {
    return say("({}; nothing changes)\n", terminal_text(refused.what()));
  }
  say("(a new conversation, with this system message)\n");
}

void ChatTerminal::set_adapter(const std::string& name) {
  if (!name.empty()) {
    try {
      session_.use_adapter(name == "none" ? "" : name, "/adapter");
    } catch (const ConfigError& refused) {
      return say("({}; nothing changes)\n", terminal_text(refused.what()));
    }
  }
  const std::string now = session_.adapter();
  say("({})\n", now.empty() ? "no adapter by name answers" : now + " answers");
}

void ChatTerminal::save(const std::string& name) {
  if (name.empty()) return say("(/save FILE.jsonl: expected the name of a file)\n");
  const std::filesystem::path path = std::filesystem::absolute(name).lexically_normal();
  std::error_code error;
  if (std::filesystem::exists(path, error) && !saved_.contains(path))
    return say("({} exists, and is not of this chat: nothing is written)\n", name);
  try {
    write_file_atomically(path, conversation_line(session_.conversation()) + "\n");
  } catch (const Error& problem) {
    return say("({})\n", problem.what());
  }
  saved_.insert(path);
  say("({} in {})\n", counted(std::ssize(session_.conversation().messages), "message"), name);
}

void ChatTerminal::ask(const std::string& text) {
  const auto show = [](const std::string& piece) { print_now(terminal_text(piece)); };
  ChatSession::Asked asked;
  try {
    asked = session_.ask(ChatMessage::of_text("user", text), "the message", show);
  } catch (const ContextFull& full) {
    return say("({}; it is left out, /reset begins a new conversation)\n", full.what());
  } catch (const ConfigError& refused) {
    return say("({}; it is left out)\n", terminal_text(refused.what()));
  }
  show("\n");
  const Answer& answer = asked.answer;
  ++answers_;
  tokens_ += static_cast<int64_t>(answer.generated.tokens.size());
  seconds_ += answer.seconds;
  if (answer.generated.reason == StopReason::interrupted) {
    interrupts_.clear();
    interrupted_ = true;
    say_text(answer.text.empty() ? "(stopped before the answer began: the message is left out)\n"
                                 : "(stopped; Ctrl-C once more leaves)\n");
  } else if (asked.context_full) {
    say("(the context of the model is full: /reset begins a new conversation)\n");
  } else if (answer.generated.reason == StopReason::length) {
    say("(stopped after {}: --max-new-tokens)\n",
        counted(std::ssize(answer.generated.tokens), "token"));
  }
}

}  // namespace viaduct::cli
