// Lines of chat files in each of their forms, and lines that are none.

#include <gmock/gmock.h>

#include "conversation/conversation.h"
#include "conversation/prompt_template.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using Problem = ConversationProblem;

/// "role: content | role: content" of a line.
std::string messages_of(const std::string& line, const ConversationReading& reading = {}) {
  std::string shown;
  for (const ChatMessage& message : parse_conversation(line, reading).messages) {
    const TemplateValue* content = message.value.as_map().find("content");
    shown += (shown.empty() ? "" : " | ") + message.role + ": " +
             (content == nullptr ? "-" : content->as_text());
  }
  return shown;
}

std::pair<Problem, std::string> problem_of(const std::string& line) {
  try {
    parse_conversation(line);
  } catch (const InvalidConversation& error) {
    return {error.problem(), error.what()};
  }
  ADD_FAILURE() << line << " is valid";
  return {};
}

TEST(ConversationForms, EachFormGivesItsMessages) {
  const struct {
    const char *line, *messages;
    ConversationForm form;
  } cases[] = {
      {R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})",
       "user: Hi | assistant: Yo", ConversationForm::chat},
      {R"({"id": 3, "conversations": [{"role": "user", "content": "Hi"},
           {"role": "assistant", "content": "Yo"}]})",
       "user: Hi | assistant: Yo", ConversationForm::chat},
      {R"({"system": "Be kind.", "conversations": [{"from": "human", "value": "Hi"},
           {"from": "gpt", "value": "Yo"}, {"from": "observation", "value": "3"},
           {"from": "model", "value": "4"}]})",
       "system: Be kind. | user: Hi | assistant: Yo | tool: 3 | assistant: 4",
       ConversationForm::share_gpt},
      {R"({"conversations": [{"from": "system", "value": "S"}, {"from": "user", "value": "Hi"},
           {"from": "assistant", "value": "Yo"}, {"from": "tool", "value": "1"},
           {"from": "function", "value": "2"}, {"from": "gpt", "value": "3"}]})",
       "system: S | user: Hi | assistant: Yo | tool: 1 | tool: 2 | assistant: 3",
       ConversationForm::share_gpt},
      {R"({"messages": [{"role": "user", "content": "Hi"},
           {"role": "function", "name": "f", "content": "3"},
           {"role": "assistant", "content": "Yo"}]})",
       "user: Hi | function: 3 | assistant: Yo", ConversationForm::chat},
      {R"({"instruction": "Add", "input": "1 2", "output": "3"})",
       "user: Add\n\n1 2 | assistant: 3", ConversationForm::instruction},
      {R"({"instruction": "Add", "input": "", "output": "3", "system": "S",
           "history": [["a", "b"]]})",
       "system: S | user: a | assistant: b | user: Add | assistant: 3",
       ConversationForm::instruction},
      {R"({"prompt": [{"role": "user", "content": "Hi"}],
           "completion": [{"role": "assistant", "content": "Yo"}]})",
       "user: Hi | assistant: Yo", ConversationForm::prompt_completion},
      {R"({"system": "S", "messages": [{"role": "user", "content": "Hi"},
           {"role": "assistant", "content": "Yo"}]})",
       "system: S | user: Hi | assistant: Yo", ConversationForm::chat},
      {R"({"system": "S", "prompt": [{"role": "user", "content": "Hi"}],
           "completion": [{"role": "assistant", "content": "Yo"}]})",
       "system: S | user: Hi | assistant: Yo", ConversationForm::prompt_completion},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(messages_of(row.line), row.messages);
    EXPECT_EQ(parse_conversation(row.line).form, row.form) << row.line;
  }
}

TEST(ConversationForms, TextsOfPromptAndCompletionAreJoinedAsTheyAre) {
  const Conversation joined = parse_conversation(R"({"prompt": "1 + 1 =", "completion": " 2"})");
  ASSERT_TRUE(joined.plain);
  EXPECT_EQ(joined.plain->text, "1 + 1 = 2");
  EXPECT_EQ(joined.plain->answer_begin, 7u);
  EXPECT_EQ(joined.plain->answer_end, 9u);
}

TEST(ConversationForms, MegatronsTemplateNamesMembers) {
  const Conversation plain = parse_conversation(R"({"input": " a ", "output": "b"})");
  ASSERT_TRUE(plain.plain);
  EXPECT_EQ(plain.plain->text, "a b");
  EXPECT_EQ(plain.plain->answer_begin, 2u);
  const ConversationReading reading{"Q: {question}\nA: {output}\n", true, true};
  const auto filled = *parse_conversation(R"({"question": "?", "output": "!"})", reading).plain;
  EXPECT_EQ(filled.text, "Q: ?\nA: !\n");
  EXPECT_EQ(filled.text.substr(filled.answer_begin, filled.answer_end - filled.answer_begin), "!");
  EXPECT_THROW(parse_prompt_template("{input} {out"), ConfigError);
  EXPECT_THROW(parse_prompt_template("{input}"), ConfigError);
  EXPECT_THROW(parse_prompt_template("{output} {input}"), ConfigError);
}

TEST(ConversationForms, WordsOfAPromptTemplateAreKnown) {
  const ConversationReading reading{"{system}: {output}<|im_end|>", true, true};
  const auto plain = *parse_conversation(R"({"system": "S", "output": "!"})", reading).plain;
  EXPECT_EQ(plain.text, "S: !<|im_end|>");
  EXPECT_EQ(plain.answer_end, 4u);
  EXPECT_THAT(plain.template_words, testing::ElementsAre(std::pair<size_t, size_t>{1, 3},
                                                         std::pair<size_t, size_t>{4, 14}));
}

TEST(ConversationForms, AMessageSaysWhetherItIsLearned) {
  const auto learned = [](const std::string& members) {
    return ChatMessage::of_value(
               TemplateValue::from_json(R"({"role": "assistant", "content": "x")" + members + "}",
                                        "m"))
        .learned;
  };
  EXPECT_TRUE(learned(""));
  EXPECT_TRUE(learned(R"(, "train": true, "weight": 1)"));
  EXPECT_TRUE(learned(R"(, "train": null)"));
  EXPECT_FALSE(learned(R"(, "train": false)"));
  EXPECT_FALSE(learned(R"(, "train": false, "weight": 0)"));
}

TEST(ConversationForms, MembersThatAreNullAreDroppedAndReasoningIsCopied) {
  const ChatMessage message = ChatMessage::of_value(TemplateValue::from_json(
      R"({"role": "assistant", "content": "x", "tool_calls": null, "reasoning": "r"})", "m"));
  std::string names;
  for (const auto& [name, value] : message.value.as_map().entries()) names += name.as_text() + " ";
  EXPECT_EQ(names, "thinking role content reasoning reasoning_content ");
  EXPECT_EQ(message.value.as_map().find("thinking")->as_text(), "r");
  EXPECT_EQ(message.value.as_map().find("reasoning_content")->as_text(), "r");
}

TEST(ConversationForms, ToolsAreAListOrTheJsonOfOne) {
  const char* rest = R"("messages": [{"role": "assistant", "content": "x"}]})";
  EXPECT_TRUE(
      parse_conversation(R"({"tools": [{"name": "f"}], )" + std::string(rest)).tools.is_list());
  EXPECT_TRUE(parse_conversation(R"({"tools": "[{\"name\": \"f\"}]", )" + std::string(rest))
                  .tools.is_list());
  EXPECT_TRUE(parse_conversation(R"({"tools": null, )" + std::string(rest)).tools.is_none());
  EXPECT_EQ(problem_of(R"({"tools": 3, )" + std::string(rest)).first, Problem::wrong_member);
}

TEST(ConversationForms, LinesThatAreNoneSayWhy) {
  const struct {
    const char* line;
    Problem problem;
    const char* message;
  } cases[] = {
      {"{", Problem::not_json, "not valid JSON"},
      {"[]", Problem::not_json, "list, expected an object"},
      {R"({"text": "x"})", Problem::wrong_member, "found text"},
      {R"({"messages": []})", Problem::no_messages, "no messages"},
      {R"({"messages": [{"role": "narrator", "content": "x"}]})", Problem::unknown_role,
       "'narrator'"},
      {R"({"messages": [{"content": "x"}]})", Problem::unknown_role, "no role"},
      {R"({"conversations": [{"from": "bard", "value": "x"}]})", Problem::unknown_role, "'bard'"},
      // A call of a tool as a text, which is no message that templates know.
      {R"({"conversations": [{"from": "human", "value": "x"},
           {"from": "function_call", "value": "{}"}, {"from": "gpt", "value": "y"}]})",
       Problem::unknown_role, "'function_call', expected one of human, user, gpt"},
      {R"({"messages": [{"role": "function_call", "content": "{}"},
           {"role": "assistant", "content": "y"}]})",
       Problem::unknown_role, "'function_call'"},
      // The call of OpenAI's older form.
      {R"({"messages": [{"role": "user", "content": "x"},
           {"role": "assistant", "content": null, "function_call": {"name": "f"}}]})",
       Problem::empty_answer, "neither content nor tool calls"},
      {R"({"messages": [{"role": "user", "content": "x"}]})", Problem::no_answer, "assistant"},
      {R"({"messages": [{"role": "assistant", "content": ""}]})", Problem::empty_answer,
       "neither content nor tool calls"},
      {R"({"messages": [{"role": "assistant", "content": " \n\u3000"}]})", Problem::empty_answer,
       "neither content nor tool calls"},
      {R"({"messages": [{"role": "assistant", "tool_calls": []}]})", Problem::empty_answer,
       "neither content nor tool calls"},
      {R"({"messages": [{"role": "user"}, {"role": "assistant", "content": "x"}]})",
       Problem::wrong_member, "no content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]},
           {"role": "assistant", "content": "x"}]})",
       Problem::unknown_part, "'image'"},
      {R"({"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]})",
       Problem::wrong_member, "weight"},
      {R"({"messages": [{"role": "assistant", "content": "x", "train": 0}]})",
       Problem::wrong_member, "'train' of a message is neither true nor false"},
      {R"({"messages": [{"role": "assistant", "content": "x", "train": true, "weight": 0}]})",
       Problem::wrong_member, "contradict"},
      {R"({"system": "S", "messages": [{"role": "system", "content": "T"},
           {"role": "assistant", "content": "x"}]})",
       Problem::two_system_prompts, "two system prompts"},
      {R"({"system": "S", "conversations": [{"from": "system", "value": "T"},
           {"from": "gpt", "value": "x"}]})",
       Problem::two_system_prompts, "two system prompts"},
      {R"({"system": "S", "prompt": "x", "completion": "y"})", Problem::wrong_member,
       "'system' has no place"},
      {R"({"prompt": "x", "completion": ""})", Problem::empty_answer, "empty"},
      {R"({"prompt": "x", "completion": [{"role": "assistant", "content": "x"}]})",
       Problem::wrong_member, "two texts or two lists"},
  };
  for (const auto& row : cases) {
    const auto [problem, message] = problem_of(row.line);
    EXPECT_EQ(problem, row.problem) << row.line << ": " << message;
    EXPECT_THAT(message, HasSubstr(row.message)) << row.line;
  }
  EXPECT_THROW(parse_conversation(R"({"chosen": "a", "rejected": "b"})"), IoError);
  EXPECT_THROW(parse_conversation(R"({"prompt": "a", "completion": "b", "label": true})"), IoError);
}

TEST(ConversationForms, AnAssistantMayOnlyCallTools) {
  const char* line =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]}]})";
  EXPECT_EQ(parse_conversation(line).messages.size(), 2u);
}

TEST(ConversationForms, UncheckedLinesHaveVariablesBesideTheirMessages) {
  const Conversation conversation = parse_conversation(
      R"({"messages": [{"role": "narrator", "content": "x"}], "date": "today",
          "add_generation_prompt": true, "chat_template_kwargs": {"deep": 1}})",
      {.checked = false});
  ASSERT_EQ(conversation.variables.size(), 2u);
  EXPECT_EQ(conversation.variables[0].first, "deep");
  EXPECT_EQ(conversation.variables[1].first, "date");
}

TEST(ConversationForms, ALineIsWrittenAsItIsRead) {
  const char* line =
      R"({"messages":[{"role":"user","content":"é\n"},{"role":"assistant","content":"x"}],"tools":[{"n":1.5,"t":true}],"chat_template_kwargs":{"k":null}})";
  EXPECT_EQ(conversation_line(parse_conversation(line)), line);
}

TEST(ConversationForms, RefuseIntegersBeyond64Bits) {
  const auto line = [](const std::string& number) {
    return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
        "tool_calls": [{"arguments": {"id": )" +
           number + "}}]}]}";
  };
  for (const char* number :
       {"9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"}) {
    try {
      parse_conversation(line(number));
      ADD_FAILURE() << number;
    } catch (const InvalidConversation& error) {
      EXPECT_EQ(error.problem(), ConversationProblem::wrong_member);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr(std::string("the integer ") + number +
                                     " at messages[1].tool_calls[0].arguments.id is beyond"));
    }
  }
  for (const char* number : {"9223372036854775807", "-9223372036854775808",
                             "0.12345678901234567890", "\"123456789012345678901\""})
    EXPECT_NO_THROW(parse_conversation(line(number))) << number;
  EXPECT_THROW(parse_conversation(R"({"tools": "[18446744073709551616]", "messages": []})"),
               InvalidConversation);
}

}  // namespace
}  // namespace viaduct
