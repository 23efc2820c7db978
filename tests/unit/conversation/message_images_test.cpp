// Pictures of lines: where they stand in messages, and lines whose pictures and places differ.

#include "conversation/message_images.h"

#include <gmock/gmock.h>

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Problem = ConversationProblem;

const ConversationReading kWithImages{.images = true};

/// "role: text" of each message, {PATH} where a picture stands.
std::string shown(const std::string& line) {
  std::string text;
  for (const ChatMessage& message : parse_conversation(line, kWithImages).messages) {
    const TemplateValue& content = *message.value.as_map().find("content");
    text += (text.empty() ? "" : " | ") + message.role + ": ";
    if (content.is_text()) {
      text += content.as_text();
      continue;
    }
    size_t image = 0;
    for (const TemplateValue& part : content.as_list().items) {
      const TemplateValue* words = part.as_map().find("text");
      text +=
          words == nullptr ? "{" + message.images.at(image++) + "}" : "(" + words->as_text() + ")";
    }
    EXPECT_EQ(image, message.images.size());
  }
  return text;
}

TEST(MessageImages, StandWhereTheLineSays) {
  const std::string answer = R"({"role": "assistant", "content": "Yo"}]})";
  // LLaVA's form, and ShareGPT with several.
  EXPECT_EQ(shown(R"({"image": "a.png", "conversations": [
                      {"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "Yo"}]})"),
            "user: {a.png}(What?) | assistant: Yo");
  EXPECT_EQ(shown(R"({"images": ["a.png", {"path": "b/c.jpg"}], "conversations": [
                      {"from": "human", "value": "One\n<image>\n\nand <image>."},
                      {"from": "gpt", "value": "Yo"}]})"),
            "user: (One){a.png}(\nand ){b/c.jpg}(.) | assistant: Yo");
  // Parts with a path of their own, and parts for the pictures of the line.
  EXPECT_EQ(shown(R"({"messages": [{"role": "user", "content": [
                      {"type": "image", "url": "file:///a.png"}, {"type": "text", "text": "Hi"},
                      {"type": "image_url", "image_url": {"url": "b.png"}}]}, )" +
                  answer),
            "user: {/a.png}(Hi){b.png} | assistant: Yo");
  EXPECT_EQ(shown(R"({"images": ["a.png"], "messages": [{"role": "user", "content": [
                      {"type": "text", "text": "Hi"}, {"type": "image"}]}, )" +
                  answer),
            "user: (Hi){a.png} | assistant: Yo");
  // Without pictures nothing changes, and what looks like a place is a text.
  EXPECT_EQ(
      shown(R"({"image": null, "messages": [{"role": "user", "content": "<image>?"}, )" + answer),
      "user: <image>? | assistant: Yo");
}

TEST(MessageImages, AreCountedByMessages) {
  const Conversation conversation = parse_conversation(
      R"({"images": ["a", "b", "c"], "messages": [{"role": "user", "content": "<image><image>"},
          {"role": "assistant", "content": "x"}, {"role": "user", "content": "<image>"},
          {"role": "assistant", "content": "y"}]})",
      kWithImages);
  EXPECT_THAT(images_of(conversation), ElementsAre("a", "b", "c"));
  EXPECT_THAT(images_of(conversation, 2), ElementsAre("a", "b"));
  EXPECT_THAT(images_of(parse_conversation(conversation_line(conversation), kWithImages)),
              ElementsAre("a", "b", "c"));
}

TEST(MessageImages, WhatDoesNotFitIsRefused) {
  const std::string end =
      R"("messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "x"}]})";
  const struct {
    std::string line;
    bool images;
    Problem problem;
    const char* message;
  } cases[] = {
      {R"({"images": ["a", "b"], )" + end, true, Problem::wrong_member,
       "the line names 2 pictures, and its messages have 1 place for them (<image>)"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]},
          {"role": "assistant", "content": "x"}]})",
       true, Problem::wrong_member, "the line names 0 pictures"},
      {R"({"image": 3, )" + end, true, Problem::wrong_member,
       "a picture is int, expected the path"},
      {R"({"image": "", )" + end, true, Problem::wrong_member, "a picture is an empty text"},
      {R"({"image": "https://host/a.png", )" + end, true, Problem::unknown_part,
       "the picture https://host/a.png is no file"},
      {R"({"image": "data:image/png;base64,AA", )" + end, true, Problem::unknown_part, "no file"},
      {R"({"image": "a.png", )" + end, false, Problem::unknown_part,
       "the line has pictures ('image'), and the model of the tokenizer takes none"},
      {R"({"images": ["a.png"], "prompt": "what?", "completion": "x"})", true,
       Problem::unknown_part, "a text has no place for them"},
      {R"({"messages": [{"role": "user", "content": [{"type": "video"}]},
          {"role": "assistant", "content": "x"}]})",
       true, Problem::unknown_part, "'video'"},
  };
  for (const auto& row : cases) {
    try {
      parse_conversation(row.line, {.images = row.images});
      ADD_FAILURE() << row.line << " is valid";
    } catch (const InvalidConversation& error) {
      EXPECT_EQ(error.problem(), row.problem) << row.line;
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.line;
    }
  }
}

}  // namespace
}  // namespace viaduct
