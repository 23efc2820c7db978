#pragma once
// Whether the text of a conversation shows its tools and the calls of them: many chat templates
// know neither, and then an answer that only calls a tool would be learned as an empty one.

#include <string>

#include "conversation/chat_renderer.h"
#include "conversation/conversation.h"

namespace viaduct {

/// Finds out by rendering with and without them. Belongs to one conversation, which the template
/// does not refuse, and which must outlive it as must the renderer.
class ToolVisibility {
 public:
  /// `options` are without add_generation_prompt.
  ToolVisibility(const ChatRenderer& renderer, const Conversation& conversation,
                 RenderOptions options);

  /// Whether `tools` show, or there are none.
  bool shows_tools() const;
  /// Whether the calls of a message show in the text up to and with it, or it has none.
  bool shows_calls(size_t message) const;
  /// What is hidden, in words: "the tool calls of message 2", "the tools"; "" if nothing is.
  std::string hidden() const;

 private:
  std::string text_with_marks() const;

  const ChatRenderer& renderer_;
  const Conversation& conversation_;
  RenderOptions options_;
  bool calls_ = false;  // there are some
  /// The text of all messages with a mark behind the name of each called function; "" where the
  /// template refuses such names.
  std::string marked_;
};

}  // namespace viaduct
