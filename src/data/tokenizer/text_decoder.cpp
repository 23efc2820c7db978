#include "data/tokenizer/text_decoder.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

/// The byte that "<0x41>" spells.
std::optional<char> spelled_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(value);
}

std::string replaced(const DecodeReplacement& step, std::string_view token, RegexScratch& scratch) {
  std::string out;
  size_t done = 0;
  const auto replace = [&](Regex::Match match) {
    out.append(token.substr(done, match.begin - done)).append(step.content);
    done = match.end;
  };
  if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
    for (size_t at; (at = token.find(*literal, done)) != std::string_view::npos;)
      replace({at, at + literal->size()});
  } else {
    std::get<Regex>(step.pattern).for_each_match(token, scratch, replace);
  }
  return out.append(token.substr(done));
}

std::string unmarked(const DecodeSpaceMark& step, std::string_view token, bool first) {
  std::string out;
  while (!token.empty()) {
    if (token.starts_with(step.mark)) {
      if (!first || !step.drops_first) out += ' ';
      token.remove_prefix(step.mark.size());
    } else {
      out += token.front();
      token.remove_prefix(1);
    }
  }
  return out;
}

std::string_view stripped(const DecodeStrip& step, std::string_view token) {
  const size_t bytes = step.character.size();
  size_t begin = 0, end = token.size();
  for (size_t i = 0; i < step.begin && token.substr(begin).starts_with(step.character); ++i)
    begin += bytes;
  for (size_t i = 0; i < step.end && token.substr(0, end).ends_with(step.character); ++i)
    end -= bytes;
  return begin < end ? token.substr(begin, end - begin) : std::string_view();
}

}  // namespace

TextDecoder::TextDecoder(std::vector<DecodeStep> steps, std::string_view source)
    : steps_(std::move(steps)), joined_with_spaces_(false) {
  bool fused = false;
  int marks = 0, fallbacks = 0, strips = 0;
  for (const DecodeStep& step : steps_) {
    const auto* simple = std::get_if<DecodeSimple>(&step);
    marks += std::holds_alternative<DecodeSpaceMark>(step);
    fallbacks += simple != nullptr && *simple == DecodeSimple::byte_fallback;
    if (fused) {
      strips += std::holds_alternative<DecodeStrip>(step);
      const bool fuses_again = simple != nullptr && *simple == DecodeSimple::fuse;
      VIADUCT_CHECK(ConfigError, fuses_again || std::holds_alternative<DecodeStrip>(step),
                    "{}: a decoder with a step other than Strip after Fuse or ByteLevel is not "
                    "supported",
                    source);
    }
    fused |= simple != nullptr && *simple != DecodeSimple::byte_fallback;
  }
  VIADUCT_CHECK(ConfigError, fallbacks <= 1 && marks + strips <= 1,
                "{}: a decoder with more than one of Metaspace and Strip after Fuse, or of "
                "ByteFallback, is not supported",
                source);
}

struct TextDecoder::Call {
  const TextDecoder& decoder;
  bool exact, verbatim;
  DecodeState& state;
  RegexScratch& scratch;
  std::string& out;

  void run(size_t at, std::string token) const {
    bool fused = false;
    for (; at < decoder.steps_.size(); ++at) {
      const DecodeStep& step = decoder.steps_[at];
      if (const auto* replacement = std::get_if<DecodeReplacement>(&step)) {
        token = replaced(*replacement, token, scratch);
      } else if (const auto* mark = std::get_if<DecodeSpaceMark>(&step)) {
        token = unmarked(*mark, token, state.at_start);
        state.at_start = false;
      } else if (const auto* strip = std::get_if<DecodeStrip>(&step)) {
        token = fused ? strip_whole(*strip, token) : std::string(stripped(*strip, token));
      } else {
        const DecodeSimple simple = std::get<DecodeSimple>(step);
        if (simple == DecodeSimple::byte_fallback) {
          if (const auto byte = spelled_byte(token); byte && !exact) {
            state.bytes += *byte;
            return;
          } else if (byte) {
            token = std::string(1, *byte);
          } else {
            flush_bytes(at + 1);
          }
        } else if (simple == DecodeSimple::byte_letters) {
          if (!(exact && verbatim)) token = unspell_bytes(token).value_or(token);
          fused = true;
        } else {
          fused = true;
        }
      }
    }
    out += token;
  }

  void flush_bytes(size_t next) const {
    const std::string bytes = std::move(state.bytes);
    state.bytes.clear();
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes)) return run(next, bytes);
    for (size_t i = 0; i < bytes.size(); ++i) run(next, "\uFFFD");
  }

  /// A part of the whole text without what the step strips of the text; the end is held back.
  std::string strip_whole(const DecodeStrip& step, std::string_view part) const {
    const size_t bytes = step.character.size();
    while (state.at_start && !part.empty()) {
      if (state.stripped < step.begin && part.starts_with(step.character)) {
        part.remove_prefix(bytes);
        ++state.stripped;
      } else {
        state.at_start = false;
      }
    }
    std::string text = std::move(state.end) + std::string(part);
    state.end.clear();
    std::string_view kept = text;
    for (size_t i = 0; i < step.end && kept.ends_with(step.character); ++i)
      kept.remove_suffix(bytes);
    state.end = text.substr(kept.size());
    return std::string(kept);
  }
};

void TextDecoder::push(std::string token, bool exact, bool verbatim, DecodeState& state,
                       RegexScratch& scratch, std::string& out) const {
  if (joined_with_spaces_) {
    if (!state.at_start) out += ' ';
    state.at_start = false;
  }
  Call{*this, exact, verbatim, state, scratch, out}.run(0, std::move(token));
}

void TextDecoder::finish(DecodeState& state, RegexScratch& scratch, std::string& out) const {
  size_t fallback = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto* simple = std::get_if<DecodeSimple>(&steps_[i]);
    if (simple != nullptr && *simple == DecodeSimple::byte_fallback) fallback = i;
  }
  Call{*this, false, false, state, scratch, out}.flush_bytes(fallback + 1);
  state = {};  // what it held back to strip is left out
}

}  // namespace viaduct
