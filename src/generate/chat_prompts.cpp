#include "generate/chat_prompts.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "base/user_input.h"
#include "config/problems.h"
#include "conversation/chat_encoder.h"
#include "conversation/line_members.h"
#include "conversation/message_checks.h"
#include "conversation/message_images.h"
#include "conversation/text_parts.h"
#include "conversation/tool_visibility.h"
#include "generate/adapter_choice.h"

namespace viaduct {
namespace {

/// What is said of pictures where they are not read.
constexpr std::string_view kReadsTexts =
    "texts alone are answered; expected model.read_images=true and a model that takes images";

/// Parts are texts, and pictures where the message has some that were read.
void check_parts(const ChatMessage& message, const TemplateList& parts, const std::string& where) {
  for (const TemplateValue& part : parts.items) {
    const TemplateValue* type = part.is_map() ? part.as_map().find("type") : nullptr;
    if (type == nullptr || !type->is_text() || type->as_text() == "text") continue;
    if (!message.images.empty() && type->as_text() == "image") continue;
    fail<ConfigError>("{}: a part of a message is of the type \"{}\", and {}", where,
                      shown_name(type->as_text()), kReadsTexts);
  }
}

/// InvalidConversation, or ConfigError, for a content that cannot be asked with. Templates may
/// print a tool's answer as a map.
void check_content_of(const ChatMessage& message, const std::string& where) {
  const TemplateValue* content = message.value.as_map().find("content");
  VIADUCT_CHECK(ConfigError, content != nullptr || message.is_answer(),
                "{}: a message of the role '{}' has no content", where, message.role);
  if (content == nullptr || content->is_map()) return;
  if (content->is_text()) return check_utf8(content->as_text(), where);
  if (content->is_list()) check_parts(message, content->as_list(), where);
  check_content(*content, !message.images.empty());
}

void check_messages(const Conversation& conversation, const std::string& where) {
  VIADUCT_CHECK(ConfigError, !conversation.plain,
                "{}: a text without messages; expected a conversation (\"messages\")", where);
  const auto& messages = conversation.messages;
  VIADUCT_CHECK(ConfigError, !messages.empty(), "{}: a conversation without messages", where);
  for (const ChatMessage& message : messages) {
    try {
      check_role(message);
      check_content_of(message, where);
    } catch (const InvalidConversation& invalid) {
      fail<ConfigError>("{}: {}", where, invalid.what());
    }
  }
  VIADUCT_CHECK(ConfigError, !messages.back().is_answer(),
                "{}: the last message is an answer (of the assistant); expected one to answer",
                where);
}

/// A text that spells the token would stand for an image.
void check_image_tokens(const PromptImages* images, const PromptText& prompt) {
  if (images == nullptr) return;
  const ImageTokens& tokens = images->places().tokens();
  const auto found = std::ranges::count(*prompt.ids, tokens.id);
  VIADUCT_CHECK(ConfigError, found == prompt.images.count * tokens.count,
                "{}: {} times {}, expected {} for {}: the text of a message spells it",
                prompt.where, found, tokens.token, prompt.images.count * tokens.count,
                counted(prompt.images.count, "picture"));
}

/// The line's pictures into the messages; InvalidConversation if the model reads none.
void take_images(const TemplateMap& line, bool reads_images, Conversation& conversation) {
  if (reads_images) return read_images(line, conversation);
  check_no_images(line, kReadsTexts);
}

/// Whether a line asks by {"prompt": TEXT}, as in a file of validation.sample_prompts, and not by a
/// form of conversations, which may have a prompt besides.
bool is_prompt(const TemplateMap& line) {
  const TemplateValue* prompt = member(line, "prompt");
  const auto lacks = [&](std::string_view name) { return member(line, name) == nullptr; };
  return prompt != nullptr && prompt->is_text() && lacks("completion") && lacks("messages") &&
         lacks("conversations");
}

/// The line with the prompt as its only message; what else it has (system, tools) stays.
TemplateMap with_message(const TemplateMap& line) {
  TemplateMap map;
  for (const auto& [name, value] : line.entries())
    if (name.as_text() != "prompt") map.set(name, value);
  const std::string& prompt = member(line, "prompt")->as_text();
  map.set("messages", TemplateValue::list({ChatMessage::of_text("user", prompt).value}));
  return map;
}

/// The conversation of a line; `prompts`: which may be a prompt too, a message of the user.
Conversation conversation_of_line(const std::string& text, const std::string& where, bool images,
                                  bool prompts) {
  try {
    const TemplateValue value = line_object(text);
    const TemplateMap& given = value.as_map();
    const TemplateMap line = prompts && is_prompt(given) ? with_message(given) : given;
    const ConversationReading reading{.checked = false};
    Conversation conversation = parse_conversation(line, form_of(line, reading), reading);
    take_images(line, images, conversation);
    return conversation;
  } catch (const Error& error) {
    fail<ConfigError>("{}: {}", where, error.what());
  }
}

}  // namespace

ChatPrompts::ChatPrompts(ChatRenderer renderer, const Tokenizer& tokenizer,
                         const Settings& settings)
    : tokenizer_(tokenizer),
      renderer_(std::move(renderer)),
      clock_(settings.clock),
      images_(settings.images),
      end_of_turn_(find_end_of_turn()) {
  if (settings.control_tokens_as_text)
    control_tokens_.emplace(tokenizer.added_tokens(), &renderer_);
}

std::optional<int32_t> ChatPrompts::find_end_of_turn() const {
  const std::string answer = "Answer";
  Conversation conversation = conversation_of("Question");
  conversation.messages.push_back(ChatMessage::of_text("assistant", answer));
  if (images_) conversation = images_->places().shown(std::move(conversation));
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

void ChatPrompts::add_images(const Conversation& conversation, std::string& text,
                             PromptText& prompt) const {
  const std::vector<std::string> files = images_of(conversation);
  ConversationText row{.text = std::move(text)};
  images_->places().expand(row, files.size());
  text = std::move(row.text);
  prompt.images = images_->read(files);
}

PromptText ChatPrompts::prompt(const Conversation& asked, std::string where) const {
  check_messages(asked, where);
  PromptText prompt{.where = std::move(where)};
  const RenderOptions options{.add_generation_prompt = true, .clock = clock_};
  Conversation given = asked;
  if (images_ == nullptr) join_text_parts(renderer_, given, options);
  const Conversation marked = control_tokens_ ? control_tokens_->marked(given) : given;
  const Conversation conversation = images_ ? images_->places().shown(marked) : marked;
  try {
    std::string text = renderer_.render(conversation, options).text;
    if (images_) add_images(given, text, prompt);
    if (control_tokens_) {
      encode_marked(std::move(text), prompt);
    } else {
      prompt.text = std::move(text);
      prompt.ids = tokenizer_.encode(prompt.text);
    }
    prompt.hidden_tools =
        ToolVisibility(renderer_, images_ ? images_->places().shown(given) : given,
                       {.clock = clock_})
            .hidden();
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", prompt.where, error.what());
  } catch (const IoError& error) {
    fail<ConfigError>("{}: {}", prompt.where, error.what());
  }
  check_image_tokens(images_.get(), prompt);
  return prompt;
}

std::string ChatPrompts::kept_answer(std::string text) const {
  if (images_ == nullptr || control_tokens_) return text;  // encoded as a text
  return images_->places().without_places(std::move(text));
}

Conversation conversation_of(std::string text) {
  Conversation conversation;
  conversation.messages.push_back(ChatMessage::of_text("user", std::move(text)));
  return conversation;
}

Conversation read_conversation(const std::string& line, const std::string& where, bool images) {
  return conversation_of_line(line, where, images, false);
}

ChatMessage read_message(const std::string& line, const std::string& where, bool images) {
  return read_user_input([&] {
    const TemplateValue value = TemplateValue::from_json(line, where);
    try {
      Conversation one;
      one.messages.push_back(ChatMessage::of_value(value));
      take_images(value.as_map(), images, one);
      return std::move(one.messages.front());
    } catch (const InvalidConversation& invalid) {
      fail<ConfigError>("{}: {}", where, invalid.what());
    }
  });
}

std::vector<PromptText> make_chat_prompts(const std::vector<PromptText>& lines, bool jsonl,
                                          const ChatPrompts& prompts,
                                          const std::vector<std::string>& images) {
  Problems problems;
  std::vector<PromptText> made;
  for (const PromptText& line : lines) {
    try {
      Conversation conversation =
          jsonl ? conversation_of_line(line.text, line.where, prompts.reads_images(), true)
                : conversation_of(line.text);
      if (!images.empty()) {
        ChatMessage& message = conversation.messages.front();
        message = with_images(std::move(message), images);
      }
      made.push_back(prompts.prompt(conversation, line.where));
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
