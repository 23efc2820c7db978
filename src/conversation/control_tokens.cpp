#include "conversation/control_tokens.h"

#include <algorithm>

#include "conversation/chat_renderer.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

// Private-use characters U+F0000 and U+F0001.
constexpr std::string_view kBegin = "\xf3\xb0\x80\x80", kEnd = "\xf3\xb0\x80\x81";
constexpr std::string_view kCommon = "\xf3\xb0\x80";

/// Whether a mark stands at `at`.
bool is_mark(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  return rest.starts_with(kBegin) || rest.starts_with(kEnd);
}

/// The next mark from `at` on; npos without one.
size_t find_mark(std::string_view text, size_t at) {
  for (at = text.find(kCommon, at); at != std::string_view::npos; at = text.find(kCommon, at + 1)) {
    if (is_mark(text, at)) return at;
  }
  return at;
}

/// The bytes of a text that are not the prompt template's.
std::vector<TextRange> own_words(const Conversation::Plain& plain) {
  std::vector<TextRange> ranges;
  size_t at = 0;
  for (const auto& [begin, end] : plain.template_words) {
    if (begin > at) ranges.emplace_back(at, begin);
    at = end;
  }
  if (plain.text.size() > at) ranges.emplace_back(at, plain.text.size());
  return ranges;
}

AddedTokens chosen(const AddedTokens& added, const ChatRenderer* renderer) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : added.tokens()) {
    const bool in_template = renderer != nullptr && renderer->contains(token.content) &&
                             !only_white_space(token.content);
    if (!token.special && !in_template) continue;
    AddedToken plain;
    plain.id = token.id;
    plain.content = token.content;
    tokens.push_back(std::move(plain));
  }
  return AddedTokens(std::move(tokens));
}

}  // namespace

bool is_marked(std::string_view text, size_t at) {
  return text.substr(0, at).ends_with(kBegin);
}

ControlTokens::ControlTokens(const AddedTokens& added, const ChatRenderer* renderer)
    : tokens_(chosen(added, renderer)) {}

void ControlTokens::count(const TemplateValue& value, ControlTokenCounts& counts) const {
  if (value.is_text()) {
    tokens_.split(
        value.as_text(), false, false, [](std::string_view) {},
        [&](int32_t, std::string_view token) { ++counts[std::string(token)]; });
  } else if (value.is_list()) {
    for (const TemplateValue& item : value.as_list().items) count(item, counts);
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map().entries()) count(entry.second, counts);
  }
}

void ControlTokens::count(const Conversation& conversation, ControlTokenCounts& counts) const {
  for (const ChatMessage& message : conversation.messages) {
    for (const auto& [name, value] : message.value.as_map().entries()) {
      // A copy of what reasoning_content says.
      if (!name.is_text() || name.as_text() != "thinking") count(value, counts);
    }
  }
  count(conversation.tools, counts);
  count(conversation.documents, counts);
  for (const auto& [name, value] : conversation.variables) count(value, counts);
  if (conversation.plain) {
    const Conversation::Plain plain = with_end(*conversation.plain);
    const std::string_view text = plain.text;
    for (const auto& [begin, end] : own_words(plain))
      count(TemplateValue(text.substr(begin, end - begin)), counts);
  }
}

std::string ControlTokens::marked_text(std::string_view text) const {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(find_mark(text, at), text.size());
    clean += text.substr(at, mark - at);
    at = std::min(mark + kBegin.size(), text.size());
  }
  std::string result;
  tokens_.split(
      clean, false, false, [&](std::string_view plain) { result += plain; },
      [&](int32_t, std::string_view token) { ((result += kBegin) += token) += kEnd; });
  return result;
}

TemplateValue ControlTokens::marked(const TemplateValue& value) const {
  if (value.is_text()) {
    std::string text = marked_text(value.as_text());
    return text == value.as_text() ? value : TemplateValue(std::move(text));
  }
  if (value.is_list()) {
    std::vector<TemplateValue> items;
    for (const TemplateValue& item : value.as_list().items) items.push_back(marked(item));
    return TemplateValue::list(std::move(items), value.as_list().form);
  }
  if (value.is_map()) {
    TemplateMap map;
    for (const auto& [key, item] : value.as_map().entries()) map.set(key, marked(item));
    return TemplateValue::map(std::move(map));
  }
  return value;
}

Conversation::Plain ControlTokens::with_end(const Conversation::Plain& plain) const {
  const std::string_view answer =
      std::string_view(plain.text)
          .substr(plain.answer_begin, plain.answer_end - plain.answer_begin);
  std::optional<TextRange> last;
  size_t at = plain.answer_begin;
  tokens_.split(
      answer, false, false,
      [&](std::string_view words) {
        at += words.size();
        if (!only_white_space(words)) last.reset();
      },
      [&](int32_t, std::string_view token) {
        last = {at, at + token.size()};
        at += token.size();
      });
  Conversation::Plain result = plain;
  if (last) {
    auto& words = result.template_words;
    words.insert(std::ranges::lower_bound(words, *last), *last);
  }
  return result;
}

Conversation::Plain ControlTokens::marked(const Conversation::Plain& given) const {
  const Conversation::Plain plain = with_end(given);
  const std::string_view text = plain.text;
  Conversation::Plain result;
  size_t at = 0;
  const auto take = [&](size_t end, bool of_template) {
    if (end <= at) return;
    const std::string_view part = text.substr(at, end - at);
    const size_t begin = result.text.size();
    result.text += of_template ? std::string(part) : marked_text(part);
    if (of_template) result.template_words.emplace_back(begin, result.text.size());
    at = end;
  };
  // The answer begins and ends where a piece does.
  const auto take_own = [&](size_t end) {
    for (const auto& [place, moved] : {std::pair{plain.answer_begin, &result.answer_begin},
                                       std::pair{plain.answer_end, &result.answer_end}}) {
      if (place < at || place > end) continue;
      take(place, false);
      *moved = result.text.size();
    }
    take(end, false);
  };
  for (const auto& [begin, end] : plain.template_words) {
    take_own(begin);
    take(end, true);
  }
  take_own(text.size());
  return result;
}

Conversation ControlTokens::marked(const Conversation& conversation) const {
  Conversation result = conversation;
  for (ChatMessage& message : result.messages) message.value = marked(message.value);
  result.tools = marked(result.tools);
  result.documents = marked(result.documents);
  for (auto& [name, value] : result.variables) value = marked(value);
  if (result.plain) result.plain = marked(*result.plain);
  return result;
}

std::vector<TextPiece> take_marks(ConversationText& row) {
  const std::string_view text = row.text;
  std::string clean;
  std::vector<TextPiece> pieces;
  std::vector<size_t> marks;  // where they stand in `text`
  size_t at = 0, begin = 0;
  bool open = false;  // the last mark was one that begins
  for (size_t mark = find_mark(text, 0); mark != std::string_view::npos;
       mark = find_mark(text, at)) {
    marks.push_back(mark);
    clean += text.substr(at, mark - at);
    at = mark + kBegin.size();
    const bool ends = text.substr(mark).starts_with(kEnd);
    if (clean.size() > begin) pieces.push_back({begin, clean.size(), open && ends});
    begin = clean.size();
    open = !ends;
  }
  clean += text.substr(at);
  if (clean.size() > begin || pieces.empty()) pieces.push_back({begin, clean.size(), false});
  const auto moved = [&](size_t place) {
    const auto before = std::lower_bound(marks.begin(), marks.end(), place) - marks.begin();
    return place - static_cast<size_t>(before) * kBegin.size();
  };
  for (auto* ranges : {&row.answers, &row.kept_out}) {
    for (TextRange& range : *ranges) range = {moved(range.first), moved(range.second)};
  }
  row.text = std::move(clean);
  return pieces;
}

}  // namespace viaduct
