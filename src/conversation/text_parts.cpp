#include "conversation/text_parts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace viaduct {
namespace {

const TemplateValue* listed_content(const ChatMessage& message) {
  const TemplateValue* content = message.value.as_map().find("content");
  return content != nullptr && content->is_list() ? content : nullptr;
}

/// The texts of a list of parts; nothing if one is no part of text.
std::optional<std::string> joined(const TemplateList& parts) {
  std::string result;
  for (size_t i = 0; i < parts.items.size(); ++i) {
    const TemplateValue& part = parts.items[i];
    const TemplateValue* type = part.is_map() ? part.as_map().find("type") : nullptr;
    const TemplateValue* text = part.is_map() ? part.as_map().find("text") : nullptr;
    if (type == nullptr || !type->is_text() || type->as_text() != "text" || text == nullptr ||
        !text->is_text())
      return std::nullopt;
    if (i > 0) result += '\n';
    result += text->as_text();
  }
  return result;
}

/// How often `text` shows the type of a part, as Python writes a map or as JSON.
size_t shown_types(std::string_view text) {
  constexpr std::array<std::string_view, 3> kTypes = {"'type': 'text'", R"("type": "text")",
                                                      R"("type":"text")"};
  size_t count = 0;
  for (const std::string_view type : kTypes) {
    for (size_t at = text.find(type); at != std::string_view::npos; at = text.find(type, at + 1))
      ++count;
  }
  return count;
}

std::optional<std::string> rendered(const ChatRenderer& renderer, const Conversation& conversation,
                                    const RenderOptions& options) {
  try {
    return renderer.render(conversation, options).text;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

size_t join_text_parts(const ChatRenderer& renderer, Conversation& conversation,
                       const RenderOptions& options) {
  if (std::ranges::none_of(conversation.messages, listed_content)) return 0;
  Conversation texts = conversation;
  size_t count = 0;
  for (ChatMessage& message : texts.messages) {
    const TemplateValue* content = listed_content(message);
    if (content == nullptr) continue;
    auto text = joined(content->as_list());
    if (!text) return 0;
    ++count;
    TemplateMap map = message.value.as_map();
    map.set("content", TemplateValue(std::move(*text)));
    message.value = TemplateValue::map(std::move(map));
  }
  const auto as_texts = rendered(renderer, texts, options);
  if (!as_texts) return 0;
  const auto as_lists = rendered(renderer, conversation, options);
  if (as_lists && shown_types(*as_lists) <= shown_types(*as_texts)) return 0;
  conversation = std::move(texts);
  return count;
}

}  // namespace viaduct
