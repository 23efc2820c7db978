#pragma once
// Conversations: what a line of a chat file holds, and what a chat template is rendered with.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "template/template_value.h"

namespace viaduct {

/// Which members a line has (docs/fine-tuning.md has the table).
enum class ConversationForm { chat, share_gpt, instruction, prompt_completion, megatron };

/// "chat (messages)", "ShareGPT (conversations)", …
std::string_view form_name(ConversationForm form);

/// One message, as the template sees it.
struct ChatMessage {
  std::string role;     // "system", "user", "assistant", "tool", …
  TemplateValue value;  // a map: role, content, and whatever else the message has
  /// What its `weight` (0, 1) or `train` (a bool) says; without either an answer is learned.
  bool learned = true;
  bool says_learned = false;  // one of them stands there and says so
  /// Files of its pictures, as the line names them, in the order of the parts {"type": "image"}.
  std::vector<std::string> images = {};

  /// The message {"role": role, "content": content}.
  static ChatMessage of_text(std::string role, std::string content);
  /// A message of a JSON object, as transformers' apply_chat_template hands it to the template:
  /// members that are null are dropped, and reasoning_content, thinking and reasoning fill each
  /// other. InvalidConversation if it is no map with a role.
  static ChatMessage of_value(const TemplateValue& message);

  bool is_answer() const { return role == "assistant"; }
  /// Of the system, or of the developer, as newer templates call it.
  bool is_instruction() const { return role == "system" || role == "developer"; }
  /// Whether the member is there and is neither "" nor an empty list.
  bool has(std::string_view member) const;
  /// Whether the content is more than white space.
  bool has_words() const;
};

struct Conversation {
  ConversationForm form = ConversationForm::chat;
  std::vector<ChatMessage> messages;
  TemplateValue tools, documents;  // lists; none where there are none
  /// Further variables of the template (chat_template_kwargs).
  std::vector<std::pair<std::string, TemplateValue>> variables;
  /// Of prompt and completion in messages: how many of them are the prompt; else 0.
  size_t prompt_messages = 0;

  /// Forms without a chat template: `text`, whose bytes [answer_begin, answer_end) are the
  /// completion; what a prompt template puts behind it ends the answer and belongs to it.
  struct Plain {
    std::string text;
    size_t answer_begin = 0, answer_end = 0;
    /// The bytes of the prompt template's own words, ascending and disjoint.
    std::vector<std::pair<size_t, size_t>> template_words;
  };
  std::optional<Plain> plain;
};

/// Why a line is no conversation that can be learned from.
enum class ConversationProblem {
  not_utf8,             // another encoding, or a character that was cut
  not_json,             // or no object
  wrong_member,         // a member is missing or has another type
  no_messages,          // an empty list
  unknown_role,         // a role that no template knows
  unknown_part,         // content that is no text
  no_answer,            // no message of the assistant
  empty_answer,         // an assistant's message without content and tool calls
  two_system_prompts,   // a member `system`, and a first message of the system
  refused_by_template,  // the template raises an error
  answer_not_found,     // rendering does not tell where an answer begins
  hidden_calls,         // an answer without words, whose tool calls the template does not show
  broken_image,         // a picture that is missing, damaged or of another format
  hidden_images,        // the template does not print one place for each picture
};
inline constexpr size_t kConversationProblems = 14;

/// "an unknown role", for messages and counts.
std::string_view problem_name(ConversationProblem problem);

/// A line that is no conversation.
class InvalidConversation : public IoError {
 public:
  /// `message` says what is wrong, without file and line.
  InvalidConversation(ConversationProblem problem, const std::string& message)
      : IoError(message), problem_(problem) {}
  ConversationProblem problem() const { return problem_; }

 private:
  ConversationProblem problem_;
};

struct ConversationReading {
  /// Of Megatron's form: the text with {names} of members; the last one's value is the answer.
  std::string prompt_template = "{input} {output}";
  /// Whether every line is of Megatron's form, whatever members the template names.
  bool only_megatron = false;
  /// Whether roles, contents and answers are checked, as data to learn from need; else anything is
  /// accepted that a template may be rendered with.
  bool checked = true;
  /// Whether pictures are read (message_images.h); else a line with some is refused.
  bool images = false;
};

/// The form of a line by its members. InvalidConversation, which names the members, for an object
/// of no form; IoError for preferences and ratings, which this reader does not know.
ConversationForm form_of(const TemplateMap& line, const ConversationReading& reading = {});

/// A conversation of a line that has this form. InvalidConversation if it is none.
Conversation parse_conversation(const TemplateMap& line, ConversationForm form,
                                const ConversationReading& reading = {});

/// The same of a line's text, in the form that its members show; InvalidConversation also for what
/// is not a JSON object.
Conversation parse_conversation(std::string_view line, const ConversationReading& reading = {});

/// The line of JSON {"messages": […], "images"?: […], "tools"?: […], "chat_template_kwargs"?: {…}}
/// of a conversation, without its end.
std::string conversation_line(const Conversation& conversation);

}  // namespace viaduct
