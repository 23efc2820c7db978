#pragma once
// Conversations without their beginning: what `--overlong truncate_start` makes of those that are
// too long.

#include <cstddef>
#include <vector>

#include "conversation/conversation.h"

namespace viaduct {

/// How many messages at the front are of the system (or developer): they stay. A system message
/// that the template adds where there is none stays by itself.
size_t system_messages(const Conversation& conversation);

/// Where the turns may begin instead: messages of the user that an answer follows, but for one that
/// is the first after the system's messages. Ascending.
std::vector<size_t> later_questions(const Conversation& conversation);

/// The system's messages, and those from `begin` on.
Conversation without_turns_before(const Conversation& conversation, size_t begin);

/// The first `count` messages.
Conversation first_messages(const Conversation& conversation, size_t count);

/// The message after the system's, if it is a question whose content is one text; else "".
std::string first_question(const Conversation& conversation);

/// The conversation whose first question is `text`.
Conversation with_first_question(const Conversation& conversation, std::string text);

}  // namespace viaduct
