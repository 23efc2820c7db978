#pragma once
// The texts of the first messages of a conversation beside the text of all of them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/chat_renderer.h"

namespace viaduct {

/// A text as far as it equals the whole one, and what follows instead. `shared` ends between
/// characters.
struct PrefixText {
  size_t shared = 0;
  std::string rest;

  size_t size() const { return shared + rest.size(); }
  /// Whether the whole text begins with all of it.
  bool is_prefix() const { return rest.empty(); }
  std::string text(std::string_view whole) const {
    return std::string(whole.substr(0, shared)) + rest;
  }
};

/// Renders the prefixes of one conversation.
class ConversationPrefixes {
 public:
  /// Renders the whole text. TemplateError where the template refuses it.
  ConversationPrefixes(const ChatRenderer& renderer, const Conversation& conversation,
                       const RenderOptions& options);

  const RenderedTemplate& whole() const { return rendered_.whole; }
  const Conversation& conversation() const { return conversation_; }
  /// The text of the first `count` messages. TemplateError where the template refuses them.
  PrefixText prefix(size_t count, bool add_generation_prompt) const;
  /// The text of the first `count` messages and these. TemplateError where the template refuses
  /// them.
  std::string followed(size_t count, std::vector<ChatMessage> others) const;
  /// How many generation blocks the text of the first `count` messages has.
  size_t generations(size_t count) const;

 private:
  RenderedTemplate render(size_t count, bool add_generation_prompt) const;

  const ChatRenderer& renderer_;
  const Conversation& conversation_;
  RenderOptions options_;
  RenderedPrefixes rendered_;  // without those that have to be rendered alone
};

/// How many bytes at the front of both texts are equal, up to the end of a character.
size_t common_prefix(std::string_view a, std::string_view b);

}  // namespace viaduct
