#include "conversation/conversation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "conversation/message_images.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 3> kReasoning = {"reasoning_content", "thinking", "reasoning"};

bool has_value(const TemplateValue* value) {
  return value != nullptr && !value->is_none();
}

/// What the `weight` (0 or 1) or `train` of a message says; true without either.
bool is_learned(const TemplateMap& message) {
  const auto check = [](bool good, const char* error) {
    if (!good) throw InvalidConversation(ConversationProblem::wrong_member, error);
  };
  const TemplateValue *weight = message.find("weight"), *train = message.find("train");
  if (weight != nullptr) {
    check(weight->is_number() && (weight->as_float() == 0 || weight->as_float() == 1),
          "the weight of a message is neither 0 nor 1");
  }
  if (train == nullptr) return weight == nullptr || weight->as_float() != 0;
  check(train->is_bool(), "'train' of a message is neither true nor false");
  check(weight == nullptr || (weight->as_float() != 0) == train->as_bool(),
        "'train' and 'weight' of a message contradict each other");
  return train->as_bool();
}

/// Values of templates that came from JSON, as JSON.
ordered_json to_json(const TemplateValue& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_integer()) return value.as_integer();
  if (value.is_float()) return value.as_float();
  if (value.is_text()) return value.as_text();
  if (value.is_list()) {
    ordered_json list = ordered_json::array();
    for (const TemplateValue& item : value.as_list().items) list.push_back(to_json(item));
    return list;
  }
  if (value.is_map()) {
    ordered_json map = ordered_json::object();
    for (const auto& [key, item] : value.as_map().entries()) {
      if (key.is_text()) map[key.as_text()] = to_json(item);
    }
    return map;
  }
  return nullptr;
}

}  // namespace

std::string_view form_name(ConversationForm form) {
  switch (form) {
    case ConversationForm::chat:
      return "chat (messages)";
    case ConversationForm::share_gpt:
      return "ShareGPT (conversations with from and value)";
    case ConversationForm::instruction:
      return "instruction (instruction, output)";
    case ConversationForm::prompt_completion:
      return "prompt and completion";
    case ConversationForm::megatron:
      return "Megatron SFT (input, output)";
  }
  return "";
}

std::string_view problem_name(ConversationProblem problem) {
  switch (problem) {
    case ConversationProblem::not_utf8:
      return "not UTF-8";
    case ConversationProblem::not_json:
      return "not a JSON object";
    case ConversationProblem::wrong_member:
      return "a member that is missing or of another type";
    case ConversationProblem::no_messages:
      return "no messages";
    case ConversationProblem::unknown_role:
      return "an unknown role";
    case ConversationProblem::unknown_part:
      return "content that is no text";
    case ConversationProblem::no_answer:
      return "no message of the assistant";
    case ConversationProblem::empty_answer:
      return "an assistant's message without content and tool calls";
    case ConversationProblem::two_system_prompts:
      return "two system prompts";
    case ConversationProblem::refused_by_template:
      return "refused by the template";
    case ConversationProblem::answer_not_found:
      return "an answer whose place in the text is not certain";
    case ConversationProblem::hidden_calls:
      return "an answer with tool calls that the template does not show";
    case ConversationProblem::broken_image:
      return "a picture that cannot be read";
    case ConversationProblem::hidden_images:
      return "pictures without a place in the text";
  }
  return "";
}

bool ChatMessage::has(std::string_view member) const {
  const TemplateValue* found = value.as_map().find(member);
  if (!has_value(found)) return false;
  if (found->is_text()) return !found->as_text().empty();
  return !found->is_list() || !found->as_list().items.empty();
}

bool ChatMessage::has_words() const {
  const auto words = [](const TemplateValue* text) {
    return text != nullptr && text->is_text() && !only_white_space(text->as_text());
  };
  const TemplateValue* content = value.as_map().find("content");
  if (content == nullptr || !content->is_list()) return words(content);
  return std::ranges::any_of(content->as_list().items, [&](const TemplateValue& part) {
    return part.is_map() && words(part.as_map().find("text"));
  });
}

ChatMessage ChatMessage::of_text(std::string role, std::string content) {
  TemplateMap map;
  map.set("role", TemplateValue(role));
  map.set("content", TemplateValue(std::move(content)));
  return {std::move(role), TemplateValue::map(std::move(map))};
}

ChatMessage ChatMessage::of_value(const TemplateValue& message) {
  if (!message.is_map()) {
    throw InvalidConversation(ConversationProblem::wrong_member, "a message is not an object");
  }
  const TemplateMap& given = message.as_map();
  ChatMessage result;
  // As apply_chat_template: {"thinking": reasoning, **message, "reasoning_content": reasoning}.
  const TemplateValue* reasoning = nullptr;
  for (const char* name : kReasoning) {
    const TemplateValue* found = given.find(name);
    if (has_value(found)) {
      reasoning = found;
      break;
    }
  }
  TemplateMap map;
  if (reasoning != nullptr) map.set("thinking", *reasoning);
  for (const auto& [key, value] : given.entries()) {
    if (!value.is_none()) map.set(key, value);
  }
  if (reasoning != nullptr) map.set("reasoning_content", *reasoning);
  if (const TemplateValue* role = map.find("role"); role != nullptr && role->is_text()) {
    result.role = role->as_text();
  }
  result.learned = is_learned(map);
  result.says_learned =
      result.learned && (map.find("weight") != nullptr || map.find("train") != nullptr);
  result.value = TemplateValue::map(std::move(map));
  return result;
}

std::string conversation_line(const Conversation& conversation) {
  ordered_json line;
  line["messages"] = ordered_json::array();
  for (const ChatMessage& message : conversation.messages)
    line["messages"].push_back(to_json(message.value));
  const std::vector<std::string> images = images_of(conversation);
  if (!images.empty()) line["images"] = images;
  if (!conversation.tools.is_none()) line["tools"] = to_json(conversation.tools);
  if (!conversation.documents.is_none()) line["documents"] = to_json(conversation.documents);
  if (!conversation.variables.empty()) {
    ordered_json& variables = line["chat_template_kwargs"] = ordered_json::object();
    for (const auto& [name, value] : conversation.variables) variables[name] = to_json(value);
  }
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace viaduct
