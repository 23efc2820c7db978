#include "data/tokenizer/token_places.h"

#include <algorithm>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

bool is_space(char32_t c) {
  return is_white_space(c) || c == byte_character(' ');
}

void trim(TokenSpan& span, size_t before, size_t after, bool first, TokenPlaces::Trim how) {
  if (how.added_space && first && before == 1) before = 0;
  if (before > 0) span.begin = std::min(span.begin + before, span.end);
  if (after > 0 && span.end >= after) span.end = std::max(span.end - after, span.begin);
}

}  // namespace

TokenPlaces::Spaces TokenPlaces::spaces_of(std::string_view spelling) {
  Spaces spaces;
  for (std::string_view rest = spelling; !rest.empty(); ++spaces.before) {
    const CodePoint first = first_code_point(rest);
    if (!is_space(first.value)) break;
    rest.remove_prefix(first.bytes);
  }
  for (std::string_view rest = spelling; !rest.empty(); ++spaces.after) {
    const CodePoint last = last_code_point(rest);
    if (!is_space(last.value)) break;
    rest.remove_suffix(last.bytes);
  }
  return spaces;
}

std::vector<TokenSpan> TokenPlaces::spans(std::string_view text, const std::vector<Trim>& trims,
                                          bool with_template) const {
  std::vector<size_t> character_of(text.size() + 1);
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    characters += (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    character_of[at] = characters - 1;
  }
  character_of[text.size()] = characters;
  std::vector<TokenSpan> spans;
  spans.reserve(places_.size());
  for (const Entry& entry : places_) {
    const size_t begin = std::min(entry.place.begin, text.size());
    const size_t end = std::min(entry.place.end, text.size());
    TokenSpan span{character_of[begin], character_of[end]};
    for (const Trim& how : trims) {
      const bool leads = spans.empty() && !(with_template && how.behind_template);
      const bool first = leads || span.begin == 0;
      trim(span, entry.spaces.before, entry.spaces.after, first, how);
    }
    spans.push_back(span);
  }
  return spans;
}

}  // namespace viaduct
