#pragma once
// Contents that are lists of parts of text, as OpenAI's API has them, for templates that take
// texts.

#include "conversation/chat_renderer.h"
#include "conversation/conversation.h"

namespace viaduct {

/// Makes one text of each content that is a list of parts of text where the template does not take
/// lists: where it refuses the conversation as it is but not so, or writes lists out as data,
/// "[{'type': 'text', …". Parts are joined by line breaks, as servers (llama.cpp, vLLM) join them.
/// Returns how many contents it joined. A conversation that has other parts too is left as it is.
size_t join_text_parts(const ChatRenderer& renderer, Conversation& conversation,
                       const RenderOptions& options);

}  // namespace viaduct
