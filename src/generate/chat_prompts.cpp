#include "generate/chat_prompts.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "config/problems.h"
#include "conversation/chat_encoder.h"
#include "conversation/message_checks.h"
#include "conversation/text_parts.h"
#include "conversation/tool_visibility.h"
#include "generate/adapter_choice.h"

namespace viaduct {
namespace {

/// Parts of a content are texts: no model here sees anything else.
void check_parts(const ChatMessage& message, const std::string& where) {
  const TemplateValue* content = message.value.as_map().find("content");
  if (content == nullptr || !content->is_list()) return;
  for (const TemplateValue& part : content->as_list().items) {
    const TemplateValue* type = part.is_map() ? part.as_map().find("type") : nullptr;
    if (type == nullptr || !type->is_text() || type->as_text() == "text") continue;
    fail<ConfigError>("{}: a part of a message is of the type \"{}\"; models read text alone",
                      where, shown_name(type->as_text()));
  }
}

void check_messages(const Conversation& conversation, const std::string& where) {
  VIADUCT_CHECK(ConfigError, !conversation.plain,
                "{}: a text without messages; expected a conversation (\"messages\")", where);
  const auto& messages = conversation.messages;
  VIADUCT_CHECK(ConfigError, !messages.empty(), "{}: a conversation without messages", where);
  for (const ChatMessage& message : messages) {
    try {
      check_role(message);
    } catch (const InvalidConversation& invalid) {
      fail<ConfigError>("{}: {}", where, invalid.what());
    }
    check_parts(message, where);
  }
  VIADUCT_CHECK(ConfigError, !messages.back().is_answer(),
                "{}: the last message is an answer (of the assistant); expected one to answer",
                where);
}

/// The conversation of a line of JSON; {"prompt": TEXT} is a message of the user, as in a file of
/// validation.sample_prompts.
Conversation asked_conversation(const std::string& line, const std::string& where) {
  const auto document = try_parse_json<nlohmann::json>(line);
  if (!document || !document->is_object() || !document->contains("prompt") ||
      document->contains("completion") || !(*document)["prompt"].is_string())
    return read_conversation(line, where);
  return conversation_of((*document)["prompt"].get<std::string>());
}

}  // namespace

ChatPrompts::ChatPrompts(ChatRenderer renderer, const Tokenizer& tokenizer,
                         const Settings& settings)
    : tokenizer_(tokenizer),
      renderer_(std::move(renderer)),
      clock_(settings.clock),
      end_of_turn_(find_end_of_turn()) {
  if (settings.control_tokens_as_text)
    control_tokens_.emplace(tokenizer.added_tokens(), &renderer_);
}

std::optional<int32_t> ChatPrompts::find_end_of_turn() const {
  const std::string answer = "Answer";
  Conversation conversation = conversation_of("Question");
  conversation.messages.push_back(ChatMessage::of_text("assistant", answer));
  std::string text;
  try {
    text = renderer_.render(conversation, {.clock = clock_}).text;
  } catch (const ConfigError&) {
    return std::nullopt;  // a template for other conversations: the model's own stop tokens count
  }
  const size_t found = text.rfind(answer);
  if (found == std::string::npos) return std::nullopt;
  for (const int32_t id : tokenizer_.encode(text.substr(found + answer.size()))) {
    const AddedToken* added = tokenizer_.added_tokens().find(id);
    if (added != nullptr && added->special) return id;
  }
  return std::nullopt;
}

void ChatPrompts::encode_marked(std::string text, PromptText& prompt) const {
  ConversationText marked{.text = std::move(text)};
  prompt.ids = ChatEncoder(tokenizer_).encode(marked).ids;
  take_marks(marked);
  prompt.text = std::move(marked.text);
}

PromptText ChatPrompts::prompt(const Conversation& asked, std::string where) const {
  check_messages(asked, where);
  PromptText prompt{.where = std::move(where)};
  const RenderOptions options{.add_generation_prompt = true, .clock = clock_};
  Conversation conversation = asked;
  join_text_parts(renderer_, conversation, options);
  try {
    if (control_tokens_) {
      encode_marked(renderer_.render(control_tokens_->marked(conversation), options).text, prompt);
    } else {
      prompt.text = renderer_.render(conversation, options).text;
      prompt.ids = tokenizer_.encode(prompt.text);
    }
    prompt.hidden_tools = ToolVisibility(renderer_, conversation, {.clock = clock_}).hidden();
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", prompt.where, error.what());
  } catch (const IoError& error) {
    fail<ConfigError>("{}: {}", prompt.where, error.what());
  }
  return prompt;
}

Conversation conversation_of(std::string text) {
  Conversation conversation;
  conversation.messages.push_back(ChatMessage::of_text("user", std::move(text)));
  return conversation;
}

Conversation read_conversation(const std::string& line, const std::string& where) {
  try {
    return parse_conversation(line, {.checked = false});
  } catch (const InvalidConversation& invalid) {
    fail<ConfigError>("{}: {}", where, invalid.what());
  } catch (const Error& error) {
    fail<ConfigError>("{}: {}", where, error.what());
  }
}

ChatMessage read_message(const std::string& line, const std::string& where) {
  try {
    return ChatMessage::of_value(TemplateValue::from_json(line, where));
  } catch (const InvalidConversation& invalid) {
    fail<ConfigError>("{}: {}", where, invalid.what());
  } catch (const IoError& error) {
    fail<ConfigError>("{}", error.what());
  }
}

std::vector<PromptText> make_chat_prompts(const std::vector<PromptText>& lines, bool jsonl,
                                          const ChatPrompts& prompts) {
  Problems problems;
  std::vector<PromptText> made;
  for (const PromptText& line : lines) {
    try {
      made.push_back(prompts.prompt(
          jsonl ? asked_conversation(line.text, line.where) : conversation_of(line.text),
          line.where));
      if (!jsonl) continue;
      const auto document = parse_json<nlohmann::json>(line.text, line.where);
      made.back().adapter = chosen_adapter(document, line.where);
      if (document.contains("id")) made.back().id = document["id"].dump();
    } catch (const ConfigError& error) {
      for (const std::string& problem : error.problems()) problems.add_text(problem);
    }
  }
  problems.throw_if_any();
  return made;
}

}  // namespace viaduct
