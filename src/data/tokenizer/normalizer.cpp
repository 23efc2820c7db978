#include "data/tokenizer/normalizer.h"

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

/// Each character of `text` as `change(character, out)` writes it.
template <class Change>
std::string map_characters(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = first_code_point(text);
    text.remove_prefix(next.bytes);
    change(next.value, out);
  }
  return out;
}

std::optional<std::string> apply(NormalForm form, std::string_view text, RegexScratch&) {
  if (!may_change(text, form)) return std::nullopt;
  return to_form(text, form);
}

std::optional<std::string> apply(const Replacement& step, std::string_view text,
                                 RegexScratch& scratch) {
  std::string out;
  size_t done = 0;
  bool any = false;
  step.pattern.for_each_match(text, scratch, [&](Regex::Match match) {
    out.append(text.substr(done, match.begin - done)).append(step.content);
    done = match.end;
    any = true;
  });
  if (!any) return std::nullopt;
  return out.append(text.substr(done));
}

std::optional<std::string> apply(const Prefix& step, std::string_view text, RegexScratch&) {
  if (text.empty() || step.text.empty()) return std::nullopt;
  return step.text + std::string(text);
}

std::optional<std::string> apply(const StripSpace& step, std::string_view text, RegexScratch&) {
  const std::string_view kept = stripped(step, text);
  if (kept.size() == text.size()) return std::nullopt;
  return std::string(kept);
}

std::optional<std::string> apply(CharacterStep step, std::string_view text, RegexScratch&) {
  switch (step) {
    case CharacterStep::lowercase:
      return to_lower_case(text);
    case CharacterStep::strip_accents:
      return map_characters(text, [](char32_t c, std::string& out) {
        if (!is_accent(c)) append_utf8(out, c);
      });
    case CharacterStep::nmt:
      return map_characters(text, clean_for_translation);
    case CharacterStep::byte_letters:
      return spell_bytes(text);
  }
  return std::nullopt;
}

std::optional<std::string> apply(const Charsmap& map, std::string_view text, RegexScratch&) {
  return map.normalize(text);
}

}  // namespace

void clean_for_translation(char32_t c, std::string& out) {
  const bool left_out = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                        c == 0x7F || c == 0x8F || c == 0x9F;
  if (left_out) return;
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  append_utf8(out, space ? U' ' : c);
}

std::string_view stripped(const StripSpace& step, std::string_view text) {
  while (step.left && !text.empty() && is_white_space(first_code_point(text).value))
    text.remove_prefix(first_code_point(text).bytes);
  while (step.right && !text.empty() && is_white_space(last_code_point(text).value))
    text.remove_suffix(last_code_point(text).bytes);
  return text;
}

void Normalizer::add(NormalizerStep step) {
  steps_.push_back(std::move(step));
}

std::optional<std::string> Normalizer::normalize(std::string_view text, RegexScratch& scratch,
                                                 bool in_middle) const {
  std::optional<std::string> out;
  for (const NormalizerStep& step : steps_) {
    if (in_middle && std::holds_alternative<Prefix>(step)) continue;
    auto next = std::visit(
        [&](const auto& how) { return apply(how, out ? std::string_view(*out) : text, scratch); },
        step);
    if (next) out = std::move(next);
  }
  return out;
}

}  // namespace viaduct
