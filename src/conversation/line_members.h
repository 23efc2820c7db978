#pragma once
// Members of a line of a chat file, of the types that its form asks for.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/conversation.h"

namespace viaduct {

template <class... Args>
[[noreturn]] void invalid_line(ConversationProblem problem, fmt::format_string<Args...> format,
                               Args&&... args) {
  throw InvalidConversation(problem, fmt::format(format, std::forward<Args>(args)...));
}

/// The JSON object of a line; InvalidConversation for anything else.
TemplateValue line_object(std::string_view line);

/// The member, nothing where it is missing or null.
const TemplateValue* member(const TemplateMap& line, std::string_view name);

/// InvalidConversation (wrong_member) where the member is missing or of another type.
const std::string& text_member(const TemplateMap& line, std::string_view name);
const std::vector<TemplateValue>& list_member(const TemplateMap& line, std::string_view name);
/// A text that may be missing: "".
std::string optional_text(const TemplateMap& line, std::string_view name);

}  // namespace viaduct
