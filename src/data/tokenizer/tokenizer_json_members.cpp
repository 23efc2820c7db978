#include "data/tokenizer/tokenizer_json_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using nlohmann::json;
using Kind = JsonKind;

bool is_character(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return !text.empty() && first_code_point(text).bytes == text.size();
}

bool has_kind(const json& value, JsonKind kind) {
  switch (kind) {
    case Kind::boolean:
      return value.is_boolean();
    case Kind::boolean_or_null:
      return value.is_boolean() || value.is_null();
    case Kind::text:
      return value.is_string();
    case Kind::text_or_null:
      return value.is_string() || value.is_null();
    case Kind::character:
      return is_character(value);
    case Kind::count:
      return value.is_number_unsigned();
    case Kind::count_or_null:
      return value.is_number_unsigned() || value.is_null();
    case Kind::id:
      return value.is_number_unsigned() &&
             value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
    case Kind::list:
      return value.is_array();
    case Kind::object:
      return value.is_object();
  }
  return false;
}

std::string_view expected(JsonKind kind) {
  switch (kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::boolean_or_null:
      return "true, false or null";
    case Kind::text:
      return "a string";
    case Kind::text_or_null:
      return "a string or null";
    case Kind::character:
      return "one character";
    case Kind::count:
      return "an integer from 0";
    case Kind::count_or_null:
      return "an integer from 0, or null";
    case Kind::id:
      return "an integer from 0 to 4294967295";
    case Kind::list:
      return "a list";
    case Kind::object:
      return "an object";
  }
  return "";
}

/// A value in a message: short ones as they are.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return shown_name(value.dump());
}

struct StepMembers {
  std::string_view part, type;
  std::array<JsonMember, 5> members;  // those without a name are none
};

constexpr std::string_view kNormalizer = "the normalizer", kPreTokenizer = "the pre_tokenizer",
                           kDecoder = "the decoder", kPostProcessor = "the post_processor";
constexpr std::array<JsonMember, 5> kByteLevel = {{{"add_prefix_space", Kind::boolean},
                                                   {"trim_offsets", Kind::boolean},
                                                   {"use_regex", Kind::boolean, false}}};
constexpr std::array<JsonMember, 5> kMetaspace = {
    {{"replacement", Kind::character},
     {"add_prefix_space", Kind::boolean_or_null, false},
     {"prepend_scheme", Kind::text, false},
     {"split", Kind::boolean_or_null, false},
     {"str_rep", Kind::text_or_null, false}}};
constexpr std::array<JsonMember, 5> kReplace = {
    {{"pattern", Kind::object}, {"content", Kind::text}}};
constexpr std::array<JsonMember, 5> kBorder = {{{"sep", Kind::list}, {"cls", Kind::list}}};

constexpr StepMembers kSteps[] = {
    {kNormalizer, "Strip", {{{"strip_left", Kind::boolean}, {"strip_right", Kind::boolean}}}},
    {kNormalizer, "Prepend", {{{"prepend", Kind::text}}}},
    {kNormalizer, "Replace", kReplace},
    {kNormalizer, "Precompiled", {{{"precompiled_charsmap", Kind::text}}}},
    {kPreTokenizer, "ByteLevel", kByteLevel},
    {kPreTokenizer,
     "Split",
     {{{"pattern", Kind::object}, {"behavior", Kind::text}, {"invert", Kind::boolean}}}},
    {kPreTokenizer, "Digits", {{{"individual_digits", Kind::boolean}}}},
    {kPreTokenizer, "Punctuation", {{{"behavior", Kind::text, false}}}},
    {kPreTokenizer, "Metaspace", kMetaspace},
    {kPreTokenizer, "CharDelimiterSplit", {{{"delimiter", Kind::character}}}},
    {kDecoder, "ByteLevel", kByteLevel},
    {kDecoder, "Metaspace", kMetaspace},
    {kDecoder,
     "Strip",
     {{{"content", Kind::character}, {"start", Kind::count}, {"stop", Kind::count}}}},
    {kDecoder, "Replace", kReplace},
    {kPostProcessor, "ByteLevel", kByteLevel},
    {kPostProcessor, "BertProcessing", kBorder},
    {kPostProcessor, "RobertaProcessing", kBorder},
    {kPostProcessor,
     "TemplateProcessing",
     {{{"single", Kind::list}, {"pair", Kind::list}, {"special_tokens", Kind::object}}}},
};

void check_member(const json& object, std::string_view what, const JsonMember& member,
                  std::string_view source) {
  const auto found = object.find(std::string(member.name));
  if (found == object.end()) {
    VIADUCT_CHECK(IoError, !member.required, "{}: {}: \"{}\" is missing", source, what,
                  member.name);
    return;
  }
  VIADUCT_CHECK(IoError, has_kind(*found, member.kind), "{}: {}: \"{}\" must be {}, found {}",
                source, what, member.name, expected(member.kind), shown(*found));
}

/// A member that is one of some names.
void check_choice(const json& object, std::string_view what, const char* name,
                  std::initializer_list<std::string_view> choices, std::string_view source) {
  const auto found = object.find(name);
  const bool known = found != object.end() && found->is_string() &&
                     std::find(choices.begin(), choices.end(),
                               found->get_ref<const std::string&>()) != choices.end();
  VIADUCT_CHECK(IoError, known, "{}: {}: \"{}\" must be {}, found {}", source, what, name,
                fmt::join(choices, " or "), found == object.end() ? "none" : shown(*found));
}

void check_truncation(const json& value, std::string_view source) {
  constexpr std::string_view kWhat = "truncation";
  check_members(value, kWhat, {{"max_length", Kind::count}, {"stride", Kind::count}}, source);
  check_choice(value, kWhat, "strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"}, source);
  if (value.contains("direction"))
    check_choice(value, kWhat, "direction", {"Left", "Right"}, source);
}

void check_padding(const json& value, std::string_view source) {
  constexpr std::string_view kWhat = "padding";
  check_members(value, kWhat,
                {{"pad_to_multiple_of", Kind::count_or_null, false},
                 {"pad_id", Kind::id},
                 {"pad_type_id", Kind::id},
                 {"pad_token", Kind::text}},
                source);
  check_choice(value, kWhat, "direction", {"Left", "Right"}, source);
  const auto strategy = value.find("strategy");
  if (strategy != value.end() && strategy->is_object() && strategy->size() == 1) {
    check_members(*strategy, "the strategy of padding", {{"Fixed", Kind::count}}, source);
  } else {
    check_choice(value, kWhat, "strategy", {"BatchLongest"}, source);
  }
}

}  // namespace

void check_members(const json& object, std::string_view what,
                   std::initializer_list<JsonMember> members, std::string_view source) {
  VIADUCT_CHECK(IoError, object.is_object(), "{}: {} must be an object, found {}", source, what,
                shown(object));
  for (const JsonMember& member : members) check_member(object, what, member, source);
}

void check_step_members(const json& step, std::string_view part, std::string_view type,
                        std::string_view source) {
  for (const StepMembers& known : kSteps) {
    if (known.part != part || known.type != type) continue;
    const std::string what = fmt::format("{} of {}", type, part);
    for (const JsonMember& member : known.members)
      if (!member.name.empty()) check_member(step, what, member, source);
  }
}

void check_document_members(const json& document, std::string_view source) {
  constexpr std::string_view kMembers[] = {"version",        "truncation", "padding",
                                           "added_tokens",   "normalizer", "pre_tokenizer",
                                           "post_processor", "decoder",    "model"};
  for (const auto& [name, value] : document.items()) {
    VIADUCT_CHECK(IoError, std::count(std::begin(kMembers), std::end(kMembers), name) == 1,
                  "{}: the file has a member \"{}\", expected only {}", source, shown_name(name),
                  fmt::join(kMembers, ", "));
  }
  const auto version = document.find("version");
  VIADUCT_CHECK(IoError, version == document.end() || *version == "1.0",
                "{}: \"version\" must be \"1.0\", found {}", source, shown(*version));
  const auto part = [&](const char* name) {
    const auto found = document.find(name);
    return found == document.end() ? json() : *found;
  };
  if (const json truncation = part("truncation"); !truncation.is_null())
    check_truncation(truncation, source);
  if (const json padding = part("padding"); !padding.is_null()) check_padding(padding, source);
}

}  // namespace viaduct
