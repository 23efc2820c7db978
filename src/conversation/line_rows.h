#pragma once
// What a piece of a chat file becomes: the work of one worker.

#include <exception>
#include <optional>
#include <string>

#include "conversation/chat_files.h"
#include "conversation/conversation_source.h"

namespace viaduct {

struct PieceRows {
  std::vector<ChatRow> rows;
  std::optional<ConversationForm> form;  // of its lines
  std::string form_place;                // of the first line that has it
  ChatFilesResult counts;                // of the piece alone
  std::exception_ptr error;              // rethrown in input order
};

/// Turns pieces into rows; belongs to one thread.
class LineRows {
 public:
  LineRows(const ChatFilesSettings& settings, const AnswerFinder& finder,
           const ControlTokens& control);

  PieceRows convert(const ConversationPiece& piece);

 private:
  void convert_line(std::string_view line, const std::string& place, PieceRows& result);
  void add_row(ConversationText text, const Conversation& conversation, PieceRows& result);
  /// Whether the row fits, or was made to.
  bool fit(const std::string& text, const Conversation& conversation, ChatRow& row,
           PieceRows& result);
  /// How many tokens at the front of a row are of its system message.
  size_t system_tokens(const std::string& text, const Conversation& conversation,
                       const ChatRow& row);

  const ChatFilesSettings& settings_;
  const AnswerFinder& finder_;
  const ControlTokens& control_;
  ChatEncoder encoder_;
};

}  // namespace viaduct
