// Lines of chat files in each of their forms.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_reader.h"
#include "conversation/conversation.h"
#include "conversation/line_members.h"
#include "conversation/message_checks.h"
#include "conversation/message_images.h"
#include "conversation/prompt_template.h"

namespace viaduct {
namespace {

using Problem = ConversationProblem;

/// Variables of a template that a line sets by members of their own.
constexpr std::array<std::string_view, 4> kOwnVariables = {"messages", "tools", "documents",
                                                           "add_generation_prompt"};

bool is_pair_member(const TemplateMap& line) {
  return member(line, "chosen") != nullptr || member(line, "rejected") != nullptr;
}

/// The first message of `conversations` tells its two forms apart.
bool has_from(const TemplateValue& conversations) {
  if (!conversations.is_list() || conversations.as_list().items.empty()) return false;
  const TemplateValue& first = conversations.as_list().items.front();
  return first.is_map() && first.as_map().find("from") != nullptr;
}

void read_tools(const TemplateMap& line, Conversation& conversation) {
  const TemplateValue* tools = member(line, "tools");
  if (tools == nullptr) return;
  conversation.tools = *tools;
  if (tools->is_text()) {
    if (tools->as_text().empty()) {
      conversation.tools = {};
      return;
    }
    try {
      conversation.tools = TemplateValue::from_json(tools->as_text(), "'tools'");
    } catch (const Error& error) {
      invalid_line(Problem::wrong_member, "{}", error.what());
    }
    if (conversation.tools.is_none()) return;
  }
  if (!conversation.tools.is_list()) {
    invalid_line(Problem::wrong_member, "'tools' is {}, expected a list, or the JSON of one",
                 type_name(conversation.tools));
  }
}

void read_variables(const TemplateMap& line, Conversation& conversation) {
  read_tools(line, conversation);
  if (const TemplateValue* documents = member(line, "documents")) {
    if (!documents->is_list()) {
      invalid_line(Problem::wrong_member, "'documents' is {}, expected a list",
                   type_name(*documents));
    }
    conversation.documents = *documents;
  }
  const TemplateValue* variables = member(line, "chat_template_kwargs");
  if (variables == nullptr) return;
  if (!variables->is_map()) {
    invalid_line(Problem::wrong_member, "'chat_template_kwargs' is {}, expected an object",
                 type_name(*variables));
  }
  for (const auto& [name, value] : variables->as_map().entries()) {
    const std::string& text = name.as_text();
    if (std::find(kOwnVariables.begin(), kOwnVariables.end(), text) != kOwnVariables.end()) {
      invalid_line(Problem::wrong_member,
                   "'chat_template_kwargs' has '{}', which is a member of the line itself", text);
    }
    conversation.variables.emplace_back(text, value);
  }
}

void read_messages(const std::vector<TemplateValue>& messages, Conversation& conversation) {
  for (const TemplateValue& message : messages)
    conversation.messages.push_back(ChatMessage::of_value(message));
}

/// The line's `system`, which is a turn before all others.
void read_system(const TemplateMap& line, Conversation& conversation) {
  if (const std::string system = optional_text(line, "system"); !system.empty())
    conversation.messages.push_back(ChatMessage::of_text("system", system));
}

void read_pictures(const TemplateMap& line, const ConversationReading& reading,
                   Conversation& conversation) {
  if (conversation.plain) {
    // A text without messages may have members of any name, but for pictures that would be read.
    if (reading.images) check_no_images(line, "a text has no place for them; expected messages");
    return;
  }
  if (reading.images) {
    read_images(line, conversation);
  } else {
    check_no_images(line,
                    "the model of the tokenizer takes none: its config.json is not of LLaVA or "
                    "Gemma 3 with a vision_config");
  }
}

/// Whether the prompt template shows the line's `system`.
bool names_system(const ConversationReading& reading) {
  return reading.prompt_template.find("{system}") != std::string::npos;
}

void read_share_gpt(const TemplateMap& line, Conversation& conversation) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFrom = {
      {{"human", "user"},
       {"user", "user"},
       {"gpt", "assistant"},
       {"assistant", "assistant"},
       {"model", "assistant"},
       {"system", "system"},
       {"tool", "tool"},
       {"function", "tool"},
       {"observation", "tool"}}};
  for (const TemplateValue& message : list_member(line, "conversations")) {
    if (!message.is_map()) invalid_line(Problem::wrong_member, "a message is not an object");
    const std::string& from = text_member(message.as_map(), "from");
    const auto role = std::find_if(kFrom.begin(), kFrom.end(),
                                   [&](const auto& entry) { return entry.first == from; });
    if (role == kFrom.end()) {
      std::vector<std::string_view> known;
      for (const auto& entry : kFrom) known.push_back(entry.first);
      invalid_line(Problem::unknown_role, "a message is from '{}', expected one of {}",
                   shown_name(from), fmt::join(known, ", "));
    }
    TemplateMap map;
    map.set("role", TemplateValue(role->second));
    const TemplateValue* value = member(message.as_map(), "value");
    map.set("content", value == nullptr ? TemplateValue("") : *value);
    for (const auto& [key, other] : message.as_map().entries()) {
      const std::string& name = key.as_text();
      if (name != "from" && name != "value" && name != "role" && name != "content")
        map.set(key, other);
    }
    conversation.messages.push_back(ChatMessage::of_value(TemplateValue::map(std::move(map))));
  }
}

void read_instruction(const TemplateMap& line, Conversation& conversation) {
  auto& messages = conversation.messages;
  if (member(line, "history") != nullptr) {
    for (const TemplateValue& pair : list_member(line, "history")) {
      const bool good = pair.is_list() && pair.as_list().items.size() == 2 &&
                        pair.as_list().items[0].is_text() && pair.as_list().items[1].is_text();
      if (!good) invalid_line(Problem::wrong_member, "'history' is not a list of pairs of texts");
      messages.push_back(ChatMessage::of_text("user", pair.as_list().items[0].as_text()));
      messages.push_back(ChatMessage::of_text("assistant", pair.as_list().items[1].as_text()));
    }
  }
  std::string question = text_member(line, "instruction");
  if (const std::string input = optional_text(line, "input"); !input.empty())
    question += question.empty() ? input : "\n\n" + input;
  messages.push_back(ChatMessage::of_text("user", std::move(question)));
  messages.push_back(ChatMessage::of_text("assistant", text_member(line, "output")));
}

void read_prompt(const TemplateMap& line, Conversation& conversation) {
  const TemplateValue& prompt = *member(line, "prompt");
  const TemplateValue& completion = *member(line, "completion");
  if (prompt.is_text() && completion.is_text()) {
    auto& plain = conversation.plain.emplace();
    plain.text = prompt.as_text() + completion.as_text();
    plain.answer_begin = prompt.as_text().size();
    plain.answer_end = plain.text.size();
    return;
  }
  if (!prompt.is_list() || !completion.is_list()) {
    invalid_line(Problem::wrong_member,
                 "'prompt' is {} and 'completion' {}, expected two texts or two lists of messages",
                 type_name(prompt), type_name(completion));
  }
  read_messages(prompt.as_list().items, conversation);
  conversation.prompt_messages = conversation.messages.size();
  read_messages(completion.as_list().items, conversation);
}

}  // namespace

ConversationForm form_of(const TemplateMap& line, const ConversationReading& reading) {
  const auto has = [&](std::string_view name) { return member(line, name) != nullptr; };
  if (reading.only_megatron) return ConversationForm::megatron;
  if (has("messages")) return ConversationForm::chat;
  if (const TemplateValue* conversations = member(line, "conversations"))
    return has_from(*conversations) ? ConversationForm::share_gpt : ConversationForm::chat;
  VIADUCT_CHECK(IoError, !is_pair_member(line),
                "a preference (chosen, rejected): this reads conversations to imitate");
  if (has("prompt") && has("completion")) {
    VIADUCT_CHECK(
        IoError, !has("label"),
        "a rated answer (prompt, completion, label): this reads conversations to imitate");
    return ConversationForm::prompt_completion;
  }
  if (has("instruction") && has("output")) return ConversationForm::instruction;
  if (has("input") && has("output")) return ConversationForm::megatron;
  std::vector<std::string> names;
  for (const auto& [name, value] : line.entries()) names.push_back(shown_name(name.as_text()));
  if (names.size() > 12) names.resize(12);
  invalid_line(
      Problem::wrong_member,
      "no form of a conversation: expected messages, conversations, instruction and output, prompt "
      "and completion, or input and output; found {}",
      names.empty() ? std::string("no members") : fmt::format("{}", fmt::join(names, ", ")));
}

Conversation parse_conversation(const TemplateMap& line, ConversationForm form,
                                const ConversationReading& reading) {
  Conversation conversation;
  conversation.form = form;
  read_variables(line, conversation);
  if (form != ConversationForm::megatron || !names_system(reading)) read_system(line, conversation);
  const bool has_system = !conversation.messages.empty();
  switch (form) {
    case ConversationForm::chat:
      read_messages(list_member(line, member(line, "messages") ? "messages" : "conversations"),
                    conversation);
      break;
    case ConversationForm::share_gpt:
      read_share_gpt(line, conversation);
      break;
    case ConversationForm::instruction:
      read_instruction(line, conversation);
      break;
    case ConversationForm::prompt_completion:
      read_prompt(line, conversation);
      break;
    case ConversationForm::megatron:
      conversation.plain = fill_prompt_template(reading.prompt_template, line);
      break;
  }
  if (has_system) check_line_system(conversation);
  if (!reading.checked) {
    // What else a line of chat has are variables of the template.
    for (const auto& [name, value] : line.entries()) {
      const std::string& text = name.as_text();
      const bool own =
          std::find(kOwnVariables.begin(), kOwnVariables.end(), text) != kOwnVariables.end() ||
          text == "conversations" || text == "system" || text == "chat_template_kwargs";
      if (form == ConversationForm::chat && !own) conversation.variables.emplace_back(text, value);
    }
    return conversation;
  }
  read_pictures(line, reading, conversation);
  if (!conversation.plain) {
    check_learnable(conversation);
  } else if (conversation.plain->answer_begin == conversation.plain->answer_end) {
    invalid_line(Problem::empty_answer, "the completion is empty");
  }
  return conversation;
}

Conversation parse_conversation(std::string_view line, const ConversationReading& reading) {
  const TemplateValue value = line_object(line);
  return parse_conversation(value.as_map(), form_of(value.as_map(), reading), reading);
}

}  // namespace viaduct
