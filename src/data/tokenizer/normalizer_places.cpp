// The steps of a normalizer over a text whose bytes keep their places.

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

/// Each character as `change(character, out)` writes it; what it becomes has its place.
template <class Change>
TrackedText map_characters(const TrackedText& text, const Change& change) {
  TrackedText made;
  made.begin = text.begin;
  std::string letters;
  for (size_t at = 0; at < text.text.size();) {
    const CodePoint next = first_code_point(std::string_view(text.text).substr(at));
    letters.clear();
    change(next.value, letters);
    made.append(letters, text.places[at]);
    at += next.bytes;
  }
  return made;
}

void apply(NormalForm form, TrackedText& text, RegexScratch&) {
  if (may_change(text.text, form)) text.change(changes_to_form(text.text, form));
}

void apply(const Replacement& step, TrackedText& text, RegexScratch& scratch) {
  TrackedText made;
  made.begin = text.begin;
  const TrackedView before = text.view();
  size_t done = 0;
  step.pattern.for_each_match(text.text, scratch, [&](Regex::Match match) {
    made.append(before.part(done, match.begin));
    const TextPlace start{text.begin, text.begin};
    made.append(step.content, match.end > 0 ? text.places[match.end - 1] : start);
    done = match.end;
  });
  made.append(before.part(done, text.text.size()));
  text = std::move(made);
}

void apply(const Prefix& step, TrackedText& text, RegexScratch&) {
  if (text.text.empty()) return;
  TrackedText made;
  made.begin = text.begin;
  made.append(step.text, text.places.front());
  made.append(text.view());
  text = std::move(made);
}

void apply(const StripSpace& step, TrackedText& text, RegexScratch&) {
  const std::string_view kept = stripped(step, text.text);
  const auto from = static_cast<size_t>(kept.data() - text.text.data());
  TrackedText made;
  made.begin = text.begin;
  made.append(text.view().part(from, from + kept.size()));
  text = std::move(made);
}

void apply(CharacterStep step, TrackedText& text, RegexScratch&) {
  switch (step) {
    case CharacterStep::lowercase:
      text = map_characters(text, [](char32_t c, std::string& out) {
        std::string letter;
        append_utf8(letter, c);
        out += to_lower_case(letter);
      });
      return;
    case CharacterStep::strip_accents:
      text = map_characters(text, [](char32_t c, std::string& out) {
        if (!is_accent(c)) append_utf8(out, c);
      });
      return;
    case CharacterStep::nmt:
      text = map_characters(text, clean_for_translation);
      return;
    case CharacterStep::byte_letters:
      text = map_characters(text, [](char32_t c, std::string& out) {
        std::string letter;
        append_utf8(letter, c);
        out += spell_bytes(letter);
      });
      return;
  }
}

void apply(const Charsmap& map, TrackedText& text, RegexScratch&) {
  if (const auto changes = map.changes(text.text)) text.change(*changes);
}

}  // namespace

void Normalizer::normalize(TrackedText& text, RegexScratch& scratch, bool in_middle) const {
  for (const NormalizerStep& step : steps_) {
    if (in_middle && std::holds_alternative<Prefix>(step)) continue;
    std::visit([&](const auto& how) { apply(how, text, scratch); }, step);
  }
}

}  // namespace viaduct
