#pragma once
// What a piece of a chat file becomes: the work of one worker.

#include <exception>
#include <map>
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
  void convert_line(std::string_view line, const std::string& place,
                    const std::filesystem::path& folder, PieceRows& result);
  /// Reads the pictures of a conversation, whose paths begin at `folder`. InvalidConversation
  /// (broken_image) for one that cannot be read.
  void read_pictures(const Conversation& conversation, const std::filesystem::path& folder);
  /// Whether what is before the answer and the answer are texts of their own.
  bool is_apart(const Conversation& conversation) const {
    return settings_.completions_apart && conversation.plain.has_value();
  }
  /// The row of a text, with its pictures. InvalidConversation unless it has a place for each.
  ChatRow encoded(ConversationText text, const Conversation& conversation);
  /// Contents that are lists of text become texts where the template takes texts; counts them.
  void join_parts(Conversation& conversation, const std::string& place,
                  ChatFilesResult& counts) const;
  /// InvalidConversation if an answer would be learned as an empty one, since its tool calls do not
  /// show; counts conversations with other tools or calls that do not.
  void check_tools(const Conversation& conversation, TrainOn train_on, const std::string& place,
                   ChatFilesResult& counts) const;
  /// Counts conversations whose thoughts or documents do not show, and those whose `text` has the
  /// arguments of calls as JSON inside of a text.
  void count_context(const Conversation& conversation, std::string_view text,
                     const std::string& place, ChatFilesResult& counts) const;
  /// How many of the learned pieces of a row do not end with a special token.
  int64_t open_ends(const ChatRow& row) const;
  /// `messages`: those that the row has (ConversationText::messages).
  void add_row(ChatRow row, size_t messages, const Conversation& conversation, TrainOn train_on,
               PieceRows& result);
  /// Makes a row that is too long fit, as asked. False if an answer would lose its question.
  bool shorten(ChatRow& row, const Conversation& conversation, TrainOn train_on);
  /// The row of the conversation with as few turns as possible left out at its beginning. It is
  /// rendered anew, so that the system's message, the template's own one too, stays, and the first
  /// turn is a question.
  std::optional<ChatRow> without_first_turns(const Conversation& conversation, TrainOn train_on);
  /// The row of a conversation; nothing if it is too long or the template refuses it.
  std::optional<ChatRow> fitting(const Conversation& conversation, TrainOn train_on);

  const ChatFilesSettings& settings_;
  const AnswerFinder& finder_;
  const ControlTokens& control_;
  ChatEncoder encoder_;
  std::map<std::string, PictureFile> pictures_;  // of the line, by the paths that it names
};

}  // namespace viaduct
