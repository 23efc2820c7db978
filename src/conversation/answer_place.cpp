#include "conversation/answer_place.h"

#include <algorithm>

#include "base/error.h"

#include "template/template_error.h"

namespace viaduct {
namespace {

/// A content that no message has: private-use character U+F0003.
constexpr std::string_view kProbe = "\xf3\xb0\x80\x83";

/// A message with that content, which is a list of parts where that of the conversation's message
/// is one: templates may read no other.
ChatMessage probe(const ConversationPrefixes& prefixes, size_t message, std::string role) {
  ChatMessage result = ChatMessage::of_text(std::move(role), std::string(kProbe));
  const auto find = [](const ChatMessage& of) { return of.value.as_map().find("content"); };
  const TemplateValue* content = find(prefixes.conversation().messages[message]);
  if (content == nullptr || !content->is_list()) return result;
  TemplateMap part, map = result.value.as_map();
  part.set("type", "text");
  part.set("text", kProbe);
  map.set("content", TemplateValue::list({TemplateValue::map(std::move(part))}));
  result.value = TemplateValue::map(std::move(map));
  return result;
}

/// What else can be done where an answer's place is not known.
std::string remedy(const ConversationPrefixes& prefixes, size_t message) {
  const auto& messages = prefixes.conversation().messages;
  const bool last = std::none_of(messages.begin() + static_cast<ptrdiff_t>(message) + 1,
                                 messages.end(), [](const auto& m) { return m.is_answer(); });
  return last ? "; {% generation %} blocks in the template tell its place"
              : "; --train-on last does not learn it, lines of one answer each need no other text, "
                "and {% generation %} blocks in the template tell its place";
}

/// Begin of the word or tag, `assistant` or `<|assistant|>`, that the offset lies in.
size_t unit_begin(std::string_view text, size_t at) {
  const size_t before = at == 0 ? std::string_view::npos : text.find_last_of(" \t\r\n>]", at - 1);
  return before == std::string_view::npos ? 0 : before + 1;
}

/// Where the text of the first messages and a last one leaves that with a probe instead: what is
/// before it are the template's words.
size_t leaves_probe(const ConversationPrefixes& prefixes, size_t message, std::string_view text,
                    const char* role) {
  return common_prefix(text, prefixes.followed(message, {probe(prefixes, message, role)}));
}

/// Whether an answer that begins at `begin`, where its text leaves the prompt, has its header
/// before it: another role's message leaves the text in an earlier word.
bool has_header(const ConversationPrefixes& prefixes, size_t message, std::string_view text,
                size_t begin) {
  try {
    const size_t role = leaves_probe(prefixes, message, text, "user");
    return unit_begin(text, role) < unit_begin(text, begin);
  } catch (const TemplateError&) {
    return false;  // it takes no question here
  }
}

/// Begin of an answer whose text, up to and with it, does not begin with `prompt`. `plain`: the
/// text of the messages before it without the generation prompt.
size_t begin_beside(const ConversationPrefixes& prefixes, size_t message, std::string_view text,
                    std::string_view prompt, std::string_view plain) {
  if (!text.starts_with(plain))
    answer_not_found(message, "the text of the messages before it does not begin its text" +
                                  remedy(prefixes, message));
  const size_t begin = std::max(plain.size(), common_prefix(prompt, text));
  const size_t own = leaves_probe(prefixes, message, text, "assistant");
  // The prompt has words that this answer has not (an opened thought).
  if (own <= begin) return begin;
  if (prompt.starts_with(plain) && prompt.size() > plain.size()) {
    const std::string_view words = prompt.substr(plain.size());
    const size_t at = text.substr(0, own).rfind(words);
    if (at != std::string_view::npos && at >= plain.size()) return at + words.size();
  }
  if (!has_header(prefixes, message, text, begin)) {
    answer_not_found(message,
                     "the generation prompt does not stand before it, so that where it begins is "
                     "not certain; {% generation %} blocks in the template tell it");
  }
  return begin;
}

/// Of a first message, and a template that has no generation prompt: its text may have more than
/// its header before it (a default system message), which it has before a second answer as well.
void check_first(const ConversationPrefixes& prefixes, std::string_view text, size_t begin) {
  const size_t own = leaves_probe(prefixes, 0, text, "assistant");
  if (own <= begin) return;
  const ChatMessage answer = probe(prefixes, 0, "assistant");
  const std::string twice = prefixes.followed(0, {answer, answer});
  const size_t first = twice.find(kProbe), second = twice.find(kProbe, first + kProbe.size());
  const bool known = second != std::string::npos && std::string_view(twice)
                                                        .substr(0, second)
                                                        .substr(first + kProbe.size())
                                                        .ends_with(text.substr(begin, own - begin));
  if (!known) {
    answer_not_found(
        0,
        "the template puts a text before the first message that it does not put before a later "
        "one, and has no generation prompt to tell where the answer begins; {% generation %} "
        "blocks in the template tell it");
  }
}

AnswerPlace place_of(const AnswerFinder& finder, const ConversationPrefixes& prefixes,
                     size_t message) {
  const std::string& whole = prefixes.whole().text;
  AnswerPlace place;
  place.with = prefixes.prefix(message + 1, false);
  const PrefixText before = prefixes.prefix(message, true);
  const PrefixText& with = place.with;
  // Texts are built only where they leave the whole one.
  const bool simple = before.is_prefix() && before.size() <= with.shared;
  std::string own = with.is_prefix() ? std::string() : with.text(whole);
  const std::string_view text =
      with.is_prefix() ? std::string_view(whole).substr(0, with.shared) : std::string_view(own);
  size_t begin = before.size();
  if (!simple || message == 0) {
    const std::string prompt = before.text(whole);
    const std::string plain = prefixes.prefix(message, false).text(whole);
    if (!text.starts_with(prompt)) {
      begin = begin_beside(prefixes, message, text, prompt, plain);
    } else if (message == 0 && prompt == plain) {
      check_first(prefixes, text, begin);
    }
  }
  const auto end = finder.last_special_end(text.substr(begin));
  place.range = {begin, end ? begin + *end : text.size()};
  place.in_whole = place.range.second <= with.shared;
  return place;
}

/// The template fails on the text of the first messages alone.
std::string refused_before(size_t message, std::string_view error) {
  return message == 0
             ? fmt::format("the template fails on the text before it, which has no messages: {}",
                           error)
             : fmt::format("the template fails on the messages up to it, or before it, alone: {}",
                           error);
}

}  // namespace

void answer_not_found(size_t message, std::string_view why) {
  throw InvalidConversation(ConversationProblem::answer_not_found,
                            fmt::format("message {}: {}", message + 1, why));
}

AnswerPlace answer_place(const AnswerFinder& finder, const ConversationPrefixes& prefixes,
                         size_t message) {
  try {
    return place_of(finder, prefixes, message);
  } catch (const TemplateError& error) {
    answer_not_found(message, refused_before(message, error.what()) + remedy(prefixes, message));
  }
}

}  // namespace viaduct
