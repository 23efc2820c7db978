#include "inference/chat_session.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "conversation/message_images.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

const Tokenizer& letters() {
  static const Tokenizer kTokenizer = load_tokenizer(test::test_data("tokenizer/bpe_shakespeare"));
  return kTokenizer;
}

/// A model that answers "yes", and what it was asked.
class ChatSessions : public testing::Test {
 protected:
  ChatSessions()
      : prompts_(ChatRenderer::of_text(
                     "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% if m.content == "
                     "'bad' %}{{ raise_exception('bad') }}{% endif %}{% endfor %}",
                     "template", {}),
                 letters(), {}) {}
  Answer answer(const Prompt& prompt, FunctionRef<void(const std::string&)> piece) {
    asked_.push_back(letters().decode(prompt.ids));
    numbers_.push_back(prompt.number);
    limits_.push_back(prompt.max_new_tokens);
    adapters_.push_back(prompt.adapter);
    Answer answer{.text = reason_ == StopReason::interrupted ? "" : "yes"};
    answer.generated.reason = reason_;
    piece(answer.text);
    return answer;
  }
  ChatSession session(ChatSettings settings = {.positions = 1000, .max_new_tokens = 10}) {
    return {prompts_, settings, answer_};
  }
  static ChatMessage user(const char* text) { return ChatMessage::of_text("user", text); }
  ChatSession::Asked ask(ChatSession& session, const char* text) {
    return session.ask(user(text), "it", [](const std::string&) {});
  }

  ChatPrompts prompts_;
  StopReason reason_ = StopReason::stop_token;
  std::vector<std::string> asked_;
  std::vector<int64_t> numbers_, limits_, adapters_;
  // FunctionRef does not own what it calls.
  std::function<Answer(const Prompt&, FunctionRef<void(const std::string&)>)> call_ =
      [this](const Prompt& prompt, FunctionRef<void(const std::string&)> piece) {
        return answer(prompt, piece);
      };
  AnswerPrompt answer_{call_};
};

TEST_F(ChatSessions, AnswersBecomePartOfTheConversation) {
  ChatSession chat = session({.system = "S", .positions = 1000, .max_new_tokens = 10});
  ask(chat, "a");
  ask(chat, "b");
  EXPECT_THAT(asked_, ElementsAre("s:S;u:a;", "s:S;u:a;a:yes;u:b;"));
  EXPECT_EQ(chat.conversation().messages.size(), 5u);
  chat.reset();
  ask(chat, "c");
  EXPECT_EQ(asked_.back(), "s:S;u:c;");
  chat.set_system("T");
  ask(chat, "d");
  EXPECT_EQ(asked_.back(), "s:T;u:d;");
  EXPECT_THAT(numbers_, ElementsAre(0, 0, 1, 2));
}

TEST_F(ChatSessions, PicturesAreOfTheFirstMessageThatStays) {
  ChatSession chat = session({.positions = 1000, .max_new_tokens = 10, .images = {"a.png"}});
  const auto nobody = [](const std::string&) {};
  EXPECT_THROW(chat.ask(conversation_of("all"), "it", nobody), ConfigError);
  reason_ = StopReason::interrupted;
  ask(chat, "a");
  EXPECT_TRUE(chat.conversation().messages.empty());
  reason_ = StopReason::stop_token;
  ask(chat, "b");
  ask(chat, "c");
  EXPECT_THAT(chat.conversation().messages.front().images, ElementsAre("a.png"));
  EXPECT_THAT(images_of(chat.conversation()), ElementsAre("a.png"));
  chat.ask(conversation_of("all"), "it", nobody);
}

TEST_F(ChatSessions, AWholeConversationMayBeginWithTheDevelopersMessage) {
  ChatSession chat = session({.system = "S", .positions = 1000, .max_new_tokens = 10});
  Conversation whole = conversation_of("a");
  whole.messages.insert(whole.messages.begin(), ChatMessage::of_text("developer", "D"));
  chat.ask(whole, "it", [](const std::string&) {});
  EXPECT_THAT(asked_, ElementsAre("d:D;u:a;"));
}

TEST_F(ChatSessions, AdaptersAnswerByName) {
  ChatSession chat = session({.positions = 1000, .max_new_tokens = 10, .adapters = {"a", "b"}});
  EXPECT_EQ(chat.adapter(), "");
  ask(chat, "1");
  chat.use_adapter("b", "it");
  EXPECT_EQ(chat.adapter(), "b");
  ask(chat, "2");
  EXPECT_THROW(chat.use_adapter("c", "it"), ConfigError);
  ask(chat, "3");
  chat.use_adapter("", "it");
  ask(chat, "4");
  EXPECT_THAT(adapters_, ElementsAre(0, 2, 2, 0));
  EXPECT_EQ(chat.conversation().messages.size(), 8u);
}

TEST_F(ChatSessions, AnErrorLeavesTheConversationAsItWas) {
  ChatSession chat = session({.positions = 40, .max_new_tokens = 10});
  ask(chat, "a");
  EXPECT_THROW(ask(chat, "bad"), ConfigError);
  EXPECT_THROW(ask(chat, std::string(400, 'z').c_str()), ContextFull);
  EXPECT_THROW(chat.set_system("bad"), ConfigError);
  ask(chat, "b");
  EXPECT_EQ(asked_.back(), "u:a;a:yes;u:b;");
  EXPECT_EQ(chat.system(), "");
}

TEST_F(ChatSessions, AnInterruptionBeforeTheAnswerTakesTheQuestionBack) {
  ChatSession chat = session();
  reason_ = StopReason::interrupted;
  ask(chat, "a");
  EXPECT_TRUE(chat.conversation().messages.empty());
}

TEST_F(ChatSessions, AnAnswerEndsWhereThePositionsEnd) {
  ChatSession chat = session({.positions = 20, .max_new_tokens = 100});
  reason_ = StopReason::length;
  EXPECT_TRUE(ask(chat, "a").context_full);
  EXPECT_LT(limits_.back(), 20);
  ChatSession other = session();
  EXPECT_FALSE(ask(other, "a").context_full);
  EXPECT_EQ(limits_.back(), 10);
}

TEST_F(ChatSessions, AWholeConversationTakesThePlaceOfTheOneSoFar) {
  ChatSession chat = session({.system = "S", .positions = 1000, .max_new_tokens = 10});
  const auto nobody = [](const std::string&) {};
  chat.ask(conversation_of("a"), "it", nobody);
  Conversation whole = conversation_of("b");
  whole.messages.insert(whole.messages.begin(), ChatMessage::of_text("system", "own"));
  chat.ask(whole, "it", nobody);
  chat.add(ChatMessage::of_text("assistant", "x"));
  ask(chat, "c");
  EXPECT_THAT(asked_, ElementsAre("s:S;u:a;", "s:own;u:b;", "s:own;u:b;a:yes;a:x;u:c;"));
  EXPECT_THAT(numbers_, ElementsAre(0, 1, 1));
}

}  // namespace
}  // namespace viaduct
