// The steps before and behind the model in a `tokenizer.json`: normalizer, pre_tokenizer, decoder.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/tokenizer_json_step.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_sets.h"

namespace viaduct {
namespace {

using nlohmann::json;

/// For messages: the file and the step in it.
std::string where_of(const json& step, std::string_view source) {
  return fmt::format("{}: {}", source, string_member(step, "type", source));
}

SplitBehavior behavior_of(const json& step, std::string_view source) {
  const std::string name = string_member(step, "behavior", source, "Isolated");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  fail<ConfigError>("{}: behavior \"{}\" is not supported", where_of(step, source), name);
}

/// The pattern of a step: {"String": …} or {"Regex": …}.
std::variant<std::string, Regex> pattern_of(const json& step, std::string_view what,
                                            std::string_view source) {
  const json* pattern = find_member(step, "pattern");
  VIADUCT_CHECK(IoError, pattern != nullptr && pattern->is_object() && pattern->size() == 1,
                "{}: a step {} has no pattern", source, what);
  if (find_member(*pattern, "Regex") != nullptr) {
    const std::string regex = string_member(*pattern, "Regex", source);
    try {
      return Regex(regex);
    } catch (const ConfigError& error) {
      fail<ConfigError>("{}: {}: {}", source, what, error.what());
    }
  }
  VIADUCT_CHECK(IoError, find_member(*pattern, "String") != nullptr, "{}: a step {} has no pattern",
                source, what);
  return string_member(*pattern, "String", source);
}

Regex regex_of(const json& step, std::string_view what, std::string_view source) {
  auto pattern = pattern_of(step, what, source);
  if (auto* regex = std::get_if<Regex>(&pattern)) return std::move(*regex);
  return Regex::from_literal(std::get<std::string>(pattern));
}

/// Whether a pattern can match the empty text.
bool may_be_empty(const RegexNode& node) {
  const auto& children = node.children;
  switch (node.kind) {
    case RegexNode::Kind::set:
      return false;
    case RegexNode::Kind::sequence:
      return std::all_of(children.begin(), children.end(), may_be_empty);
    case RegexNode::Kind::alternatives:
      return std::any_of(children.begin(), children.end(), may_be_empty);
    case RegexNode::Kind::repeat:
      return node.least == 0 || may_be_empty(children.front());
    case RegexNode::Kind::atomic:
      return may_be_empty(children.front());
    default:
      return true;
  }
}

/// A Replace of the normalizer. The library loses its place at matches of no text, so they are
/// refused.
Replacement replacement_of(const json& step, std::string_view source) {
  Regex pattern = regex_of(step, "Replace of the normalizer", source);
  const json& given = *find_member(step, "pattern");
  const std::string regex = string_member(given, "Regex", source),
                    literal = string_member(given, "String", source);
  const bool empty =
      find_member(given, "Regex") != nullptr ? may_be_empty(parse_regex(regex)) : literal.empty();
  VIADUCT_CHECK(ConfigError, !empty,
                "{}: Replace of the normalizer: a pattern that matches the empty text is not "
                "supported, found \"{}\"",
                source, regex);
  return {std::move(pattern), string_member(step, "content", source)};
}

/// A member that is one character.
std::string character_of(const json& step, std::string_view name, std::string_view otherwise,
                         std::string_view source) {
  std::string text = string_member(step, name, source, std::string(otherwise));
  VIADUCT_CHECK(IoError,
                is_valid_utf8(text) && !text.empty() && first_code_point(text).bytes == text.size(),
                "{}: {} must be one character, found \"{}\"", where_of(step, source), name, text);
  return text;
}

/// A count of characters.
size_t count_of(const json& step, std::string_view name, std::string_view source) {
  const json* value = find_member(step, name);
  VIADUCT_CHECK(IoError, value != nullptr && value->is_number_unsigned() && *value <= 1 << 20,
                "{}: {} must be a number of characters", where_of(step, source), name);
  return value->get<size_t>();
}

/// Whether a Metaspace puts a mark before texts. Old files have add_prefix_space, which must not
/// contradict.
SpaceMarkStep::Prefix prefix_of(const json& step, std::string_view source) {
  const std::string scheme = string_member(step, "prepend_scheme", source, "always");
  VIADUCT_CHECK(IoError, scheme == "always" || scheme == "first" || scheme == "never",
                "{}: prepend_scheme is \"{}\", expected always, first or never",
                where_of(step, source), scheme);
  VIADUCT_CHECK(IoError, scheme == "never" || bool_member(step, "add_prefix_space", source, true),
                "{}: add_prefix_space is false, but prepend_scheme \"{}\"", where_of(step, source),
                scheme);
  if (scheme == "never") return SpaceMarkStep::Prefix::never;
  return scheme == "first" ? SpaceMarkStep::Prefix::first : SpaceMarkStep::Prefix::always;
}

constexpr std::string_view kSpaceMark = "\u2581";

SpaceMarkStep space_mark_of(const json& step, std::string_view source) {
  SpaceMarkStep made;
  made.mark = character_of(step, "replacement", kSpaceMark, source);
  made.prefix = prefix_of(step, source);
  if (bool_member(step, "split", source, true))
    made.cut.emplace(Regex::from_literal(made.mark), SplitBehavior::merged_with_next);
  return made;
}

/// Rust's \w+|[^\w\s]+, the pieces of "Whitespace".
Regex words_and_signs() {
  const auto many = [](CodePointSet set) {
    RegexNode repeat = RegexNode::of(RegexNode::Kind::repeat, {RegexNode::of(std::move(set))});
    repeat.least = 1;
    return repeat;
  };
  const CodePointSet word = *property_set("Rust_Word"), space = *property_set("Space");
  return Regex(RegexNode::of(RegexNode::Kind::alternatives, {many(word), many(~(word | space))}));
}

}  // namespace

Normalizer parse_normalizer(const json& value, std::string_view source) {
  Normalizer made;
  size_t count = 0;
  if (value.is_null()) return made;
  for_each_tokenizer_step(value, "the normalizer", "normalizers", source, [&](const json& step) {
    const std::string type = tokenizer_step_type(step, "the normalizer", source);
    VIADUCT_CHECK(ConfigError, ++count <= kMostTokenizerSteps,
                  "{}: a normalizer of more than {} steps is not supported", source,
                  kMostTokenizerSteps);
    if (type == "NFC") {
      made.add(NormalForm::nfc);
    } else if (type == "NFD") {
      made.add(NormalForm::nfd);
    } else if (type == "NFKC") {
      made.add(NormalForm::nfkc);
    } else if (type == "NFKD") {
      made.add(NormalForm::nfkd);
    } else if (type == "Lowercase") {
      made.add(CharacterStep::lowercase);
    } else if (type == "StripAccents") {
      made.add(CharacterStep::strip_accents);
    } else if (type == "Nmt") {
      made.add(CharacterStep::nmt);
    } else if (type == "ByteLevel") {
      made.add(CharacterStep::byte_letters);
    } else if (type == "Strip") {
      made.add(StripSpace{bool_member(step, "strip_left", source, true),
                          bool_member(step, "strip_right", source, true)});
    } else if (type == "Prepend") {
      const std::string prefix = string_member(step, "prepend", source);
      VIADUCT_CHECK(ConfigError, !prefix.empty(),
                    "{}: normalizer Prepend of nothing is not supported", source);
      made.add(Prefix{prefix});
    } else if (type == "Replace") {
      made.add(replacement_of(step, source));
    } else if (type == "Precompiled") {
      made.add(Charsmap(string_member(step, "precompiled_charsmap", source), source));
    } else {
      fail<ConfigError>("{}: normalizer \"{}\" is not supported", source, type);
    }
  });
  return made;
}

PreTokenizer parse_pre_tokenizer(const json& value, std::string_view source) {
  PreTokenizer made;
  bool in_bytes = false;
  if (value.is_null()) return made;
  for_each_tokenizer_step(
      value, "the pre_tokenizer", "pretokenizers", source, [&](const json& step) {
        const std::string type = tokenizer_step_type(step, "the pre_tokenizer", source);
        VIADUCT_CHECK(ConfigError, !in_bytes,
                      "{}: pre_tokenizer \"{}\" after ByteLevel is not supported", source, type);
        const auto punctuation = [] { return Regex(*property_set("Rust_Punctuation")); };
        const auto space = [] { return Regex(*property_set("Space")); };
        if (type == "ByteLevel") {
          in_bytes = true;
          if (bool_member(step, "add_prefix_space", source, true)) made.add_prefix_space();
          if (bool_member(step, "use_regex", source, true)) made.add({Regex(gpt2_pattern())});
        } else if (type == "Split") {
          made.add({regex_of(step, "Split of the pre_tokenizer", source), behavior_of(step, source),
                    bool_member(step, "invert", source, false)});
        } else if (type == "Digits") {
          const bool single = bool_member(step, "individual_digits", source, false);
          made.add({Regex(*property_set("Rust_Numeric")),
                    single ? SplitBehavior::isolated : SplitBehavior::contiguous});
        } else if (type == "Punctuation") {
          made.add({punctuation(), behavior_of(step, source)});
        } else if (type == "Metaspace") {
          made.add(space_mark_of(step, source));
        } else if (type == "Whitespace") {
          made.add({words_and_signs(), SplitBehavior::removed, true});
        } else if (type == "WhitespaceSplit") {
          made.add({space(), SplitBehavior::removed});
        } else if (type == "BertPreTokenizer") {
          made.add({space(), SplitBehavior::removed});
          made.add({punctuation(), SplitBehavior::isolated});
        } else if (type == "CharDelimiterSplit") {
          made.add({Regex::from_literal(character_of(step, "delimiter", "", source)),
                    SplitBehavior::removed});
        } else {
          fail<ConfigError>("{}: pre_tokenizer \"{}\" is not supported", source, type);
        }
      });
  return made;
}

TextDecoder parse_decoder(const json& value, std::string_view source) {
  if (value.is_null()) return {};
  std::vector<DecodeStep> steps;
  for_each_tokenizer_step(value, "the decoder", "decoders", source, [&](const json& step) {
    const std::string type = tokenizer_step_type(step, "the decoder", source);
    VIADUCT_CHECK(ConfigError, steps.size() < kMostTokenizerSteps,
                  "{}: a decoder of more than {} steps is not supported", source,
                  kMostTokenizerSteps);
    if (type == "ByteLevel") {
      steps.push_back(DecodeSimple::byte_letters);
    } else if (type == "ByteFallback") {
      steps.push_back(DecodeSimple::byte_fallback);
    } else if (type == "Fuse") {
      steps.push_back(DecodeSimple::fuse);
    } else if (type == "Metaspace") {
      steps.push_back(DecodeSpaceMark{character_of(step, "replacement", kSpaceMark, source),
                                      prefix_of(step, source) != SpaceMarkStep::Prefix::never});
    } else if (type == "Strip") {
      steps.push_back(DecodeStrip{character_of(step, "content", "", source),
                                  count_of(step, "start", source), count_of(step, "stop", source)});
    } else if (type == "Replace") {
      auto pattern = pattern_of(step, "Replace of the decoder", source);
      const auto* literal = std::get_if<std::string>(&pattern);
      if (literal != nullptr && literal->empty()) pattern = Regex("");
      steps.push_back(
          DecodeReplacement{std::move(pattern), string_member(step, "content", source)});
    } else {
      fail<ConfigError>("{}: decoder \"{}\" is not supported", source, type);
    }
  });
  return TextDecoder(std::move(steps), source);
}

}  // namespace viaduct
