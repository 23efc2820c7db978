// The tokens around a text in a `tokenizer.json`: post_processor.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/tokenizer_json_members.h"
#include "data/tokenizer/tokenizer_json_step.h"

namespace viaduct {
namespace {

using nlohmann::json;

/// A piece of a template.
struct Piece {
  bool is_text = false;
  std::string name;  // of a text A or B, or of a special token
};

/// {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "<s>", "type_id": 0}}.
Piece piece_of(const json& value, std::string_view source) {
  const bool one = value.is_object() && value.size() == 1;
  const std::string kind = one ? value.begin().key() : "";
  VIADUCT_CHECK(IoError, kind == "Sequence" || kind == "SpecialToken",
                "{}: a piece of the template must have one member, Sequence or SpecialToken",
                source);
  const json& said = *value.begin();
  check_members(said, "a piece of the template",
                {{"id", JsonKind::text}, {"type_id", JsonKind::id}}, source);
  Piece piece{kind == "Sequence", said["id"].get<std::string>()};
  VIADUCT_CHECK(IoError, !piece.is_text || piece.name == "A" || piece.name == "B",
                "{}: a text of the template must be A or B, found \"{}\"", source, piece.name);
  return piece;
}

/// The ids of each special token by its name.
std::map<std::string, std::vector<int32_t>> template_ids(const json& tokens,
                                                         std::string_view source) {
  std::map<std::string, std::vector<int32_t>> ids;
  for (const auto& [name, token] : tokens.items()) {
    const std::string what = fmt::format("special token \"{}\" of the template", name);
    check_members(token, what,
                  {{"id", JsonKind::text}, {"ids", JsonKind::list}, {"tokens", JsonKind::list}},
                  source);
    const bool texts = std::all_of(token["tokens"].begin(), token["tokens"].end(),
                                   [](const json& text) { return text.is_string(); });
    VIADUCT_CHECK(IoError, texts, "{}: {}: \"tokens\" must be strings", source, what);
    for (const json& id : token["ids"]) ids[name].push_back(token_id_of(id, source, name));
  }
  return ids;
}

/// The part of a template for one text; that for two is only checked.
TokenTemplate parse_template(const json& step, std::string_view source) {
  const auto ids = template_ids(step["special_tokens"], source);
  for (const json& value : step["pair"]) piece_of(value, source);
  TokenTemplate made;
  int texts = 0;
  for (const json& value : step["single"]) {
    const Piece piece = piece_of(value, source);
    if (piece.is_text) {
      VIADUCT_CHECK(ConfigError, piece.name == "A",
                    "{}: the template of one text has text {}, expected A", source, piece.name);
      ++texts;
      continue;
    }
    const auto found = ids.find(piece.name);
    VIADUCT_CHECK(IoError, found != ids.end(), "{}: the template's token \"{}\" has no ids", source,
                  piece.name);
    auto& around = texts == 0 ? made.before : made.after;
    around.insert(around.end(), found->second.begin(), found->second.end());
  }
  VIADUCT_CHECK(ConfigError, texts == 1, "{}: the template has the text {} times, expected once",
                source, texts);
  return made;
}

/// The id of ["<s>", 0], as BertProcessing and RobertaProcessing give it.
int32_t named_id(const json& step, std::string_view name, std::string_view source) {
  const json& pair = *find_member(step, name);
  VIADUCT_CHECK(IoError, pair.size() == 2 && pair[0].is_string(),
                "{}: the post_processor's \"{}\" must be [\"token\", id]", source, name);
  return token_id_of(pair[1], source, name);
}

/// Whether the step says how offsets are trimmed. Of RobertaProcessing and BertProcessing the
/// library takes the first that the members fit, whatever the type says.
bool says_trims(const json& step) {
  const json* trims = find_member(step, "trim_offsets");
  const json* prefix = find_member(step, "add_prefix_space");
  return trims != nullptr && trims->is_boolean() && prefix != nullptr && prefix->is_boolean();
}

}  // namespace

TokenTemplate parse_post_processor(const json& value, std::string_view source) {
  TokenTemplate made;
  if (value.is_null()) return made;
  const auto wrap = [&](const TokenTemplate& outer) {
    made.before.insert(made.before.begin(), outer.before.begin(), outer.before.end());
    made.after.insert(made.after.end(), outer.after.begin(), outer.after.end());
  };
  const auto trim_spans = [&](const json& step) {
    if (bool_member(step, "trim_offsets", source, true))
      made.trims.push_back(
          {bool_member(step, "add_prefix_space", source, true), !made.before.empty()});
  };
  int templates = 0;
  for_each_tokenizer_step(value, "the post_processor", "processors", source, [&](const json& step) {
    const std::string type = tokenizer_step_type(step, "the post_processor", source);
    const bool border = type == "BertProcessing" || type == "RobertaProcessing";
    templates += type != "ByteLevel";
    VIADUCT_CHECK(ConfigError, templates <= 1,
                  "{}: a post_processor with {} after another template is not supported", source,
                  type);
    if (type == "TemplateProcessing") {
      VIADUCT_CHECK(ConfigError, !find_member(step, "sep") || !find_member(step, "cls"),
                    "{}: TemplateProcessing with members of BertProcessing is not supported",
                    source);
      wrap(parse_template(step, source));
    } else if (border) {
      if (says_trims(step)) trim_spans(step);
      wrap({{named_id(step, "cls", source)}, {named_id(step, "sep", source)}});
    } else if (type == "ByteLevel") {
      trim_spans(step);
    } else {
      fail<ConfigError>("{}: post_processor \"{}\" is not supported", source, type);
    }
  });
  return made;
}

}  // namespace viaduct
