// Any bytes as a line of a chat file: refused, or turned into rows whose mask fits their tokens.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "conversation/chat_encoder.h"
#include "conversation/control_tokens.h"
#include "support/chat_tokenizer.h"

namespace {

using namespace viaduct;

void check(bool good) {
  if (!good) std::abort();
}

void use(const ChatRenderer& renderer, const Tokenizer& tokenizer, ChatEncoder& encoder,
         const ControlTokens& control, std::string_view line, TrainOn train_on) {
  try {
    const Conversation conversation = parse_conversation(line);
    parse_conversation(conversation_line(conversation), {.checked = false});
    const AnswerFinder finder(&renderer, &tokenizer.added_tokens(), {});
    for (const bool marked : {false, true}) {
      ConversationTexts texts =
          finder.find(marked ? control.marked(conversation) : conversation, train_on);
      for (ConversationText& own : texts.own) {
        const ChatRow row = encoder.encode(std::move(own));
        check(row.ids.size() == row.mask.size());
      }
      const ChatRow row = encoder.encode(std::move(texts.whole));
      check(row.ids.size() == row.mask.size());
    }
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = test::chat_tokenizer();
  static const ChatRenderer renderers[] = {
      ChatRenderer::of_text(test::kChatMl, "chat", {}),
      ChatRenderer::of_text(test::kChatMlGeneration, "chat", {})};
  static ChatEncoder encoder(tokenizer);
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  for (const ChatRenderer& renderer : renderers) {
    const ControlTokens control(tokenizer.added_tokens(), &renderer);
    for (const TrainOn train_on : {TrainOn::assistant, TrainOn::last, TrainOn::completion})
      use(renderer, tokenizer, encoder, control, line, train_on);
  }
  return 0;
}
