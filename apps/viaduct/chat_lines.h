#pragma once
// `viaduct chat` without a terminal: messages in, one JSON object a line, and answers out.

#include <istream>
#include <string>

#include "inference/chat_session.h"

namespace viaduct::cli {

class ChatLines {
 public:
  /// `session` must outlive it.
  explicit ChatLines(ChatSession& session) : session_(session) {}

  /// Reads lines to the end: {"role", "content"} is the next message of the conversation, answered
  /// unless it is the assistant's or a system message; {"messages": […]} is a conversation that
  /// takes the place of the one so far, and whose last message is answered. With "adapter" a line
  /// names the adapter that answers from here on (null: none). A line in error is answered by
  /// {"error"}, and the next one is read. False if there was one. IoError if standard output cannot
  /// be written.
  bool run(std::istream& in);

 private:
  /// What the line is answered by, as JSON; "" for one that is not answered.
  std::string answer(const std::string& line, const std::string& where);

  /// Warns, once, of tools that a conversation has and its text does not show.
  void warn_about_tools(const ChatSession::Asked& asked, const std::string& where);

  ChatSession& session_;
  bool warned_ = false;
};

}  // namespace viaduct::cli
