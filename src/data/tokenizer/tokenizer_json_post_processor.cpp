// The tokens around a text in a `tokenizer.json`: post_processor.

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/tokenizer_json_step.h"

namespace viaduct {
namespace {

using nlohmann::json;

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

TokenTemplate parse_post_processor(const json& value, std::string_view source) {
  TokenTemplate made;
  if (value.is_null()) return made;
  const auto wrap = [&](const TokenTemplate& outer) {
    made.before.insert(made.before.begin(), outer.before.begin(), outer.before.end());
    made.after.insert(made.after.end(), outer.after.begin(), outer.after.end());
  };
  const auto trim_spans = [&](const json& step) {
    if (bool_member(step, "trim_offsets", source, true))
      made.trims.push_back({bool_member(step, "add_prefix_space", source, true)});
  };
  int templates = 0;
  for_each_tokenizer_step(value, "the post_processor", "processors", source, [&](const json& step) {
    const std::string type = tokenizer_step_type(step, "the post_processor", source);
    templates += type != "ByteLevel";
    VIADUCT_CHECK(ConfigError, templates <= 1,
                  "{}: a post_processor with {} after another template is not supported", source,
                  type);
    if (type == "TemplateProcessing") {
      wrap(parse_template(step, source));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      if (type == "RobertaProcessing") trim_spans(step);
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
