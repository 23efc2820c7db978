#include "conversation/prompt_template.h"

#include "base/error.h"

namespace viaduct {

std::vector<PromptPiece> parse_prompt_template(std::string_view text) {
  std::vector<PromptPiece> pieces;
  bool answered = false;
  while (!text.empty()) {
    const size_t open = text.find('{');
    if (open != 0) pieces.push_back({std::string(text.substr(0, open)), false});
    if (open == std::string_view::npos) break;
    const size_t close = text.find('}', open);
    VIADUCT_CHECK(ConfigError, close != std::string_view::npos,
                  "prompt template: a {{ without }}; members are named like {{input}}");
    std::string name(text.substr(open + 1, close - open - 1));
    VIADUCT_CHECK(ConfigError, !answered, "prompt template: {{{}}} comes behind the answer, {{{}}}",
                  name, kLabelKey);
    answered = name == kLabelKey;
    pieces.push_back({std::move(name), true});
    text.remove_prefix(close + 1);
  }
  VIADUCT_CHECK(ConfigError, answered,
                "prompt template: the answer, {{{}}}, is not in it; Megatron's is "
                "\"{{input}} {{output}}\"",
                kLabelKey);
  return pieces;
}

Conversation::Plain fill_prompt_template(std::string_view text, const TemplateMap& line) {
  Conversation::Plain plain;
  for (const PromptPiece& piece : parse_prompt_template(text)) {
    if (!piece.is_member) {
      plain.template_words.emplace_back(plain.text.size(), plain.text.size() + piece.text.size());
      plain.text += piece.text;
      continue;
    }
    const TemplateValue* value = line.find(std::string_view(piece.text));
    if (value == nullptr || !value->is_text()) {
      throw InvalidConversation(ConversationProblem::wrong_member,
                                fmt::format("'{}' is {}, expected a text", piece.text,
                                            value == nullptr ? "missing" : type_name(*value)));
    }
    std::string_view bytes = value->as_text();
    while (bytes.starts_with(' ')) bytes.remove_prefix(1);
    while (bytes.ends_with(' ')) bytes.remove_suffix(1);
    if (piece.text == kLabelKey) plain.answer_begin = plain.text.size();
    plain.text += bytes;
    if (piece.text == kLabelKey) plain.answer_end = plain.text.size();
  }
  return plain;
}

}  // namespace viaduct
