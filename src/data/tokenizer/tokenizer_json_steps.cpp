// The steps around the model in a `tokenizer.json`: normalizer, pre_tokenizer, post_processor.

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_members.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr size_t kMaxSteps = 32;
// ASCII characters in Unicode's symbol classes count as punctuation too.
constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^`|~])";

std::string type_of(const json& step, std::string_view what, std::string_view source) {
  VIADUCT_CHECK(IoError, step.is_object(), "{}: {} must be an object, found {}", source, what,
                step.type_name());
  const std::string type = string_member(step, "type", source);
  VIADUCT_CHECK(IoError, !type.empty(), "{}: {} has no type", source, what);
  return type;
}

/// Calls `visit(step)` for the step itself or for those of a (nested) sequence.
template <class Visit>
void for_each_step(const json& value, std::string_view what, std::string_view list,
                   std::string_view source, const Visit& visit) {
  if (type_of(value, what, source) != "Sequence") {
    visit(value);
    return;
  }
  const json* steps = find_member(value, list);
  VIADUCT_CHECK(IoError, steps != nullptr && steps->is_array(), "{}: {} has no list \"{}\"", source,
                what, list);
  VIADUCT_CHECK(ConfigError, steps->size() <= kMaxSteps, "{}: {} with {} steps, at most {}", source,
                what, steps->size(), kMaxSteps);
  for (const json& step : *steps) for_each_step(step, what, list, source, visit);
}

SplitBehavior behavior_of(const json& step, std::string_view source) {
  const std::string name = string_member(step, "behavior", source, "Isolated");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  fail<ConfigError>("{}: split behavior \"{}\" is not supported", source, name);
}

Regex pattern_of(const json& step, std::string_view source) {
  const json* pattern = find_member(step, "pattern");
  VIADUCT_CHECK(IoError, pattern != nullptr && pattern->is_object(),
                "{}: a Split of the pre_tokenizer has no pattern", source);
  const std::string regex = string_member(*pattern, "Regex", source);
  if (!regex.empty()) return Regex(regex);
  const std::string literal = string_member(*pattern, "String", source);
  VIADUCT_CHECK(IoError, !literal.empty(), "{}: a Split of the pre_tokenizer has no pattern",
                source);
  return Regex::from_literal(literal);
}

/// The ids that a template puts for a piece of the form {"SpecialToken": {"id": name}}.
void append_template_ids(const json& special_tokens, const json& piece, std::vector<int32_t>& ids,
                         std::string_view source) {
  const json* special = find_member(piece, "SpecialToken");
  VIADUCT_CHECK(IoError, special != nullptr, "{}: unknown piece in the template", source);
  const std::string name = string_member(*special, "id", source);
  const json* entry = find_member(special_tokens, name);
  const json* list = entry == nullptr ? nullptr : find_member(*entry, "ids");
  VIADUCT_CHECK(IoError, list != nullptr && list->is_array(),
                "{}: the template's token \"{}\" has no ids", source, name);
  for (const json& id : *list) ids.push_back(token_id_of(id, source, name));
}

TokenTemplate parse_template(const json& step, std::string_view source) {
  const json* single = find_member(step, "single");
  VIADUCT_CHECK(IoError, single != nullptr && single->is_array(),
                "{}: TemplateProcessing has no list \"single\"", source);
  const json* specials = find_member(step, "special_tokens");
  TokenTemplate made;
  int texts = 0;
  for (const json& piece : *single) {
    if (find_member(piece, "Sequence") != nullptr) {
      ++texts;
    } else {
      append_template_ids(specials == nullptr ? json() : *specials, piece,
                          texts == 0 ? made.before : made.after, source);
    }
  }
  VIADUCT_CHECK(ConfigError, texts == 1, "{}: the template has the text {} times, expected once",
                source, texts);
  return made;
}

/// The id of ["<s>", 0], as BertProcessing and RobertaProcessing give it.
int32_t named_id(const json& step, std::string_view name, std::string_view source) {
  const json* pair = find_member(step, name);
  VIADUCT_CHECK(IoError, pair != nullptr && pair->is_array() && pair->size() == 2,
                "{}: the post_processor has no \"{}\"", source, name);
  return token_id_of((*pair)[1], source, name);
}

}  // namespace

Normalizer parse_normalizer(const json& value, std::string_view source) {
  Normalizer made;
  for_each_step(value, "the normalizer", "normalizers", source, [&](const json& step) {
    const std::string type = type_of(step, "the normalizer", source);
    if (type == "NFC") {
      made.forms.push_back(NormalForm::nfc);
    } else if (type == "NFD") {
      made.forms.push_back(NormalForm::nfd);
    } else if (type == "NFKC") {
      made.forms.push_back(NormalForm::nfkc);
    } else if (type == "NFKD") {
      made.forms.push_back(NormalForm::nfkd);
    } else {
      fail<ConfigError>("{}: normalizer \"{}\" is not supported", source, type);
    }
    VIADUCT_CHECK(ConfigError, made.forms.size() <= kMaxSteps,
                  "{}: a normalizer of more than {} steps is not supported", source, kMaxSteps);
  });
  return made;
}

PreTokenizer parse_pre_tokenizer(const json& value, std::string_view source) {
  PreTokenizer made;
  bool in_bytes = false;
  for_each_step(value, "the pre_tokenizer", "pretokenizers", source, [&](const json& step) {
    const std::string type = type_of(step, "the pre_tokenizer", source);
    VIADUCT_CHECK(ConfigError, !in_bytes,
                  "{}: pre_tokenizer \"{}\" after ByteLevel is not supported", source, type);
    if (type == "ByteLevel") {
      in_bytes = true;
      if (bool_member(step, "add_prefix_space", source, true)) made.add_prefix_space();
      if (bool_member(step, "use_regex", source, true)) made.add({Regex(gpt2_pattern())});
    } else if (type == "Split") {
      made.add({pattern_of(step, source), behavior_of(step, source),
                bool_member(step, "invert", source, false)});
    } else if (type == "Digits") {
      const bool single = bool_member(step, "individual_digits", source, false);
      made.add({Regex(R"(\p{N})"), single ? SplitBehavior::isolated : SplitBehavior::contiguous});
    } else if (type == "Punctuation") {
      made.add({Regex(kPunctuation), behavior_of(step, source)});
    } else {
      fail<ConfigError>("{}: pre_tokenizer \"{}\" is not supported", source, type);
    }
  });
  return made;
}

TokenTemplate parse_post_processor(const json& value, std::string_view source) {
  TokenTemplate made;
  const auto wrap = [&](const TokenTemplate& outer) {
    made.before.insert(made.before.begin(), outer.before.begin(), outer.before.end());
    made.after.insert(made.after.end(), outer.after.begin(), outer.after.end());
  };
  for_each_step(value, "the post_processor", "processors", source, [&](const json& step) {
    const std::string type = type_of(step, "the post_processor", source);
    if (type == "TemplateProcessing") {
      wrap(parse_template(step, source));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      wrap({{named_id(step, "cls", source)}, {named_id(step, "sep", source)}});
    } else if (type != "ByteLevel") {  // ByteLevel only changes offsets, which are not supported
      fail<ConfigError>("{}: post_processor \"{}\" is not supported", source, type);
    }
  });
  return made;
}

}  // namespace viaduct
