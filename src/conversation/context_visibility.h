#pragma once
// Whether the text of a conversation shows what its messages and tools stand beside: documents, and
// the thoughts of answers. And whether it holds the arguments of calls as JSON inside of a text.

#include <optional>
#include <string>
#include <string_view>

#include "conversation/chat_renderer.h"
#include "conversation/conversation.h"

namespace viaduct {

/// What the template does not show of a conversation that it does not refuse: "the documents", "the
/// reasoning of message 2" (in the text up to and with it, for templates may leave out thoughts of
/// earlier answers later); "" if nothing. `options` are without add_generation_prompt.
std::string hidden_context(const ChatRenderer& renderer, const Conversation& conversation,
                           const RenderOptions& options);

/// The first message with a call whose arguments are the text of a JSON object, as OpenAI's API
/// gives them, of which `text`, the conversation's, has the JSON: {"a": 1} as "{\"a\": 1}".
std::optional<size_t> arguments_encoded_twice(const Conversation& conversation,
                                              std::string_view text);

}  // namespace viaduct
