#pragma once
// Megatron's texts of prompt and answer: "{input} {output}", the names being members of a line.

#include <string>
#include <string_view>
#include <vector>

#include "conversation/conversation.h"
#include "template/template_value.h"

namespace viaduct {

/// The member that is the answer (Megatron's `label_key`).
inline constexpr std::string_view kLabelKey = "output";

/// A piece of a prompt template: a text, or the name of a member.
struct PromptPiece {
  std::string text;
  bool is_member = false;
};

/// The pieces of a template. ConfigError unless {output} stands in it, once, behind all other
/// members.
std::vector<PromptPiece> parse_prompt_template(std::string_view text);

/// The text of a line, with the value of {output} as its answer, and where the template's own words
/// stand. As Megatron's GPTSFTDataset, the
/// members lose the spaces at their ends. InvalidConversation if a member is missing or no text.
Conversation::Plain fill_prompt_template(std::string_view text, const TemplateMap& line);

}  // namespace viaduct
