#include "data/tokenizer/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "data/tokenizer/token_id.h"

namespace viaduct {
namespace {

using nlohmann::json;

/// Whether a pre_tokenizer or decoder is of type ByteLevel or has one in its sequence.
bool has_byte_level(const json* value, std::string_view list) {
  if (value == nullptr || !value->is_object()) return false;
  const auto is_byte_level = [](const json& step) {
    const json* type = find_member(step, "type");
    return type != nullptr && *type == "ByteLevel";
  };
  if (is_byte_level(*value)) return true;
  const json* steps = find_member(*value, list);
  if (steps == nullptr || !steps->is_array()) return false;
  for (const json& step : *steps) {
    if (is_byte_level(step)) return true;
  }
  return false;
}

/// "a b" or ["a", "b"].
std::pair<std::string, std::string> parse_merge(const json& merge, size_t rank,
                                                std::string_view source) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  VIADUCT_CHECK(IoError, merge.is_string(), "{}: merge {} must be \"a b\" or [\"a\", \"b\"]",
                source, rank);
  const auto& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  VIADUCT_CHECK(IoError,
                space != std::string::npos && space > 0 && space + 1 < text.size() &&
                    text.find(' ', space + 1) == std::string::npos,
                "{}: merge {} must be two tokens with a space between, found \"{}\"", source, rank,
                text);
  return {text.substr(0, space), text.substr(space + 1)};
}

void refuse_unsupported(const json& model, std::string_view source) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    VIADUCT_CHECK(ConfigError, string_member(model, name, source).empty(),
                  "{}: model.{} is not supported", source, name);
  }
  const json* dropout = find_member(model, "dropout");
  VIADUCT_CHECK(ConfigError, dropout == nullptr || (dropout->is_number() && *dropout == 0),
                "{}: model.dropout is not supported", source);
}

ByteLevelBpeSpec parse_bpe(const json& model, std::string_view source) {
  refuse_unsupported(model, source);
  ByteLevelBpeSpec spec;
  const json* vocabulary = find_member(model, "vocab");
  VIADUCT_CHECK(IoError, vocabulary != nullptr, "{}: model.vocab is missing", source);
  spec.vocabulary = parse_vocabulary(*vocabulary, source);
  const json* merges = find_member(model, "merges");
  VIADUCT_CHECK(IoError, merges != nullptr && merges->is_array(),
                "{}: model.merges is missing or not a list", source);
  spec.merges.reserve(merges->size());
  for (const json& merge : *merges) {
    spec.merges.push_back(parse_merge(merge, spec.merges.size(), source));
  }
  spec.ignore_merges = bool_member(model, "ignore_merges", source, false);
  if (const json* unknown = find_member(model, "unk_token"); unknown && unknown->is_string())
    spec.unknown_token = unknown->get<std::string>();
  spec.fuse_unknown = bool_member(model, "fuse_unk", source, false);
  return spec;
}

std::vector<AddedToken> parse_added_tokens(const json& document, std::string_view source) {
  std::vector<AddedToken> added;
  const json* tokens = find_member(document, "added_tokens");
  if (tokens == nullptr) return added;
  VIADUCT_CHECK(IoError, tokens->is_array(), "{}: added_tokens must be a list", source);
  for (const json& token : *tokens) {
    const json* id = find_member(token, "id");
    VIADUCT_CHECK(IoError, id != nullptr, "{}: an added token has no id", source);
    added.push_back(parse_added_token(token, token_id_of(*id, source, "an added token"), source));
  }
  return added;
}

}  // namespace

std::vector<std::pair<std::string, int32_t>> parse_vocabulary(const json& value,
                                                              std::string_view source) {
  VIADUCT_CHECK(IoError, value.is_object(), "{}: the vocabulary must be an object, found {}",
                source, value.type_name());
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  vocabulary.reserve(value.size());
  for (const auto& [token, id] : value.items()) {
    vocabulary.emplace_back(token, token_id_of(id, source, "token \"" + token + "\""));
  }
  return vocabulary;
}

AddedToken parse_added_token(const json& value, int32_t id, std::string_view source) {
  VIADUCT_CHECK(IoError, value.is_object(), "{}: an added token must be an object, found {}",
                source, value.type_name());
  AddedToken token;
  token.id = id;
  token.content = string_member(value, "content", source);
  VIADUCT_CHECK(IoError, !token.content.empty(), "{}: added token {} has no content", source, id);
  token.single_word = bool_member(value, "single_word", source, false);
  token.lstrip = bool_member(value, "lstrip", source, false);
  token.rstrip = bool_member(value, "rstrip", source, false);
  token.special = bool_member(value, "special", source, false);
  token.normalized = bool_member(value, "normalized", source, !token.special);
  return token;
}

TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source) {
  const json document = parse_json<json>(text, std::string(source));
  const json* model = find_member(document, "model");
  VIADUCT_CHECK(IoError, model != nullptr && model->is_object(), "{}: \"model\" is missing",
                source);
  const json* pre_tokenizer = find_member(document, "pre_tokenizer");
  // Old files omit the type of a BPE model.
  const bool has_merges = find_member(*model, "merges") != nullptr;
  const std::string type = string_member(*model, "type", source, has_merges ? "BPE" : "untyped");
  TokenizerJson parsed;
  parsed.added = parse_added_tokens(document, source);
  if (const json* post_processor = find_member(document, "post_processor")) {
    parsed.around = parse_post_processor(*post_processor, source);
  }
  if (type != "BPE" || !has_byte_level(pre_tokenizer, "pretokenizers")) {
    parsed.kind = type == "BPE" ? "BPE without a ByteLevel pre_tokenizer" : type;
    return parsed;
  }
  parsed.kind = "byte-level BPE";
  ByteLevelBpeSpec spec = parse_bpe(*model, source);
  spec.pre_tokenizer = parse_pre_tokenizer(*pre_tokenizer, source);
  if (const json* normalizer = find_member(document, "normalizer")) {
    spec.normalizer = parse_normalizer(*normalizer, source);
  }
  parsed.model = std::make_unique<ByteLevelBpe>(std::move(spec), source);
  return parsed;
}

}  // namespace viaduct
