#include "conversation/image_places.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "conversation/control_tokens.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

/// A part {"type": `type`, "text": …}.
TemplateValue part_of(std::string_view type, std::string_view text = "") {
  TemplateMap map;
  map.set("type", type);
  if (!text.empty()) map.set("text", text);
  return TemplateValue::map(std::move(map));
}

/// Whether the text of a message of the user with this content has all of the words.
bool shows(const ChatRenderer& renderer, const RenderOptions& options, const TemplateValue& content,
           const std::vector<std::string>& words) {
  ChatMessage message = ChatMessage::of_text("user", "");
  TemplateMap map = message.value.as_map();
  map.set("content", content);
  message.value = TemplateValue::map(std::move(map));
  Conversation conversation;
  conversation.messages.push_back(std::move(message));
  try {
    const std::string text = renderer.render(conversation, options).text;
    return std::ranges::all_of(
        words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
  } catch (const TemplateError&) {
    return false;
  }
}

/// Ascending and disjoint.
std::vector<TextRange> united(std::vector<TextRange> ranges) {
  std::ranges::sort(ranges);
  std::vector<TextRange> result;
  for (const TextRange& range : ranges) {
    if (!result.empty() && range.first <= result.back().second) {
      result.back().second = std::max(result.back().second, range.second);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace

ImagePlaces::ImagePlaces(ImageTokens tokens, const ChatRenderer* renderer,
                         const RenderOptions& options)
    : tokens_(std::move(tokens)) {
  if (renderer == nullptr) return;
  const std::string word = "Zyx";
  takes_texts_ = shows(*renderer, options, word, {word});
  takes_parts_ =
      shows(*renderer, options, TemplateValue::list({part_of("image"), part_of("text", word)}),
            {word, tokens_.shown});
}

TemplateValue ImagePlaces::shown_content(const TemplateValue& content, bool has_images) const {
  if (content.is_text()) {
    const bool stays = has_images ? !takes_parts_ : takes_texts_ || !takes_parts_;
    return stays ? content : TemplateValue::list({part_of("text", content.as_text())});
  }
  if (takes_parts_ || !has_images || !content.is_list()) return content;
  std::string text;
  for (const TemplateValue& part : content.as_list().items) {
    const TemplateValue* words = part.is_map() ? part.as_map().find("text") : nullptr;
    if (words != nullptr && words->is_text()) {
      text += words->as_text();
    } else {
      (text += tokens_.shown) += '\n';
    }
  }
  return text;
}

Conversation ImagePlaces::shown(Conversation conversation) const {
  const bool has_images = std::ranges::any_of(
      conversation.messages, [](const ChatMessage& message) { return !message.images.empty(); });
  for (ChatMessage& message : conversation.messages) {
    const TemplateValue* content = message.value.as_map().find("content");
    if (content == nullptr) continue;
    TemplateValue other = shown_content(*content, has_images);
    if (other.same_object(*content)) continue;
    TemplateMap map = message.value.as_map();
    map.set("content", std::move(other));
    message.value = TemplateValue::map(std::move(map));
  }
  return conversation;
}

void ImagePlaces::expand(ConversationText& row, size_t pictures) const {
  std::vector<size_t> places;
  const std::string& shown = tokens_.shown;
  for (size_t at = row.text.find(shown); at != std::string::npos;
       at = row.text.find(shown, at + shown.size())) {
    if (!is_marked(row.text, at)) places.push_back(at);
  }
  if (places.size() != pictures) {
    throw InvalidConversation(
        ConversationProblem::hidden_images,
        fmt::format("{} in messages, and {} ({}) in their text by the template",
                    counted(static_cast<int64_t>(pictures), "picture"),
                    counted(static_cast<int64_t>(places.size()), "place"), shown));
  }
  if (places.empty()) return;
  std::string whole = tokens_.before;
  for (int64_t i = 0; i < tokens_.count; ++i) whole += tokens_.token;
  whole += tokens_.after;
  const size_t begin = whole.find_first_not_of('\n'), end = whole.find_last_not_of('\n') + 1;
  // Where a byte of the text stands afterwards.
  const auto moved = [&](size_t at) {
    const auto before = std::ranges::lower_bound(places, at) - places.begin();
    return at + static_cast<size_t>(before) * (whole.size() - shown.size());
  };
  const auto move = [&](std::vector<TextRange>& ranges) {
    for (auto& [first, last] : ranges) {
      first = moved(first);
      last = moved(last);
    }
  };
  move(row.answers);
  move(row.kept_out);
  std::string text;
  size_t at = 0;
  for (const size_t place : places) {
    text.append(row.text, at, place - at);
    row.kept_out.emplace_back(text.size() + begin, text.size() + end);
    text += whole;
    at = place + shown.size();
  }
  text.append(row.text, at);
  row.text = std::move(text);
  row.kept_out = united(std::move(row.kept_out));
}

std::string ImagePlaces::without_places(std::string text) const {
  // What is taken out may join its neighbours to another one.
  for (bool found = true; found;) {
    found = false;
    for (const std::string* name : {&tokens_.token, &tokens_.shown}) {
      const size_t at = text.find(*name);
      if (at == std::string::npos) continue;
      text.erase(at, name->size());
      found = true;
    }
  }
  return text;
}

int64_t ImagePlaces::count(const ChatRow& row) const {
  return std::ranges::count(row.ids, tokens_.id);
}

void ImagePlaces::close(ChatRow& row) const {
  const int64_t left = count(row), whole = left / tokens_.count;
  row.images.resize(std::min(row.images.size(), static_cast<size_t>(whole)));
  if (left % tokens_.count == 0) return;
  auto first = row.ids.begin();
  for (int64_t i = 0; first != row.ids.end(); ++first) {
    if (*first == tokens_.id && i++ == whole * tokens_.count) break;
  }
  row.ids.erase(first, row.ids.end());
  row.mask.resize(row.ids.size());
}

}  // namespace viaduct
