#pragma once
// Where an answer lies in the text of a template without {% generation %} blocks.

#include <string_view>
#include <utility>

#include "conversation/answers.h"
#include "conversation/prefixes.h"

namespace viaduct {

/// InvalidConversation (answer_not_found) of the message with this index.
[[noreturn]] void answer_not_found(size_t message, std::string_view why);

/// An answer in the text up to and with its message.
struct AnswerPlace {
  PrefixText with;        // that text
  TextRange range;        // in it
  bool in_whole = false;  // the whole text begins with it, up to the answer's end
};

/// The answer is what the text with its message has more than the text of the messages before it
/// with the generation prompt. Where that text does not begin with it, the answer begins behind the
/// prompt's own words if they stand before what the message says, and else where both part, if that
/// is not in the answer's header. Probes tell this: the answer's place with another content, and
/// with another role. InvalidConversation where the place is not certain.
AnswerPlace answer_place(const AnswerFinder& finder, const ConversationPrefixes& prefixes,
                         size_t message);

}  // namespace viaduct
