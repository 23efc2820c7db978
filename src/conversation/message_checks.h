#pragma once
// What messages need to be learned from.

#include "conversation/conversation.h"

namespace viaduct {

/// InvalidConversation unless the message has a role that templates know.
void check_role(const ChatMessage& message);

/// InvalidConversation unless a content is a text, or a list of parts of text, and of pictures
/// where the message has some that were read.
void check_content(const TemplateValue& content, bool has_images);

/// InvalidConversation unless there are messages, each has a role and a content of text, and one is
/// an answer. An answer has words, or calls tools: white space alone teaches to say nothing.
void check_learnable(const Conversation& conversation);

/// Of a conversation whose first message is the line's `system`. InvalidConversation if it is a
/// text without messages, or its second message is of the system too.
void check_line_system(const Conversation& conversation);

}  // namespace viaduct
