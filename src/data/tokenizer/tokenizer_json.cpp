#include "data/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/tokenizer_json_members.h"
#include "data/tokenizer/unigram.h"

namespace viaduct {
namespace {

using nlohmann::json;

// An id so far beyond the others is an error of the file.
constexpr int32_t kMaxIdGap = 1 << 20;

/// Whether a pre_tokenizer is of type ByteLevel or has one in its (nested) sequence.
bool has_byte_level(const json& value) {
  if (!value.is_object()) return false;
  const json* type = find_member(value, "type");
  if (type != nullptr && *type == "ByteLevel") return true;
  const json* steps = find_member(value, "pretokenizers");
  return steps != nullptr && steps->is_array() &&
         std::any_of(steps->begin(), steps->end(), has_byte_level);
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

BpeSpec parse_bpe(const json& model, std::string_view source) {
  refuse_unsupported(model, source);
  check_members(model, "the model",
                {{"type", JsonKind::text, false},
                 {"unk_token", JsonKind::text_or_null, false},
                 {"fuse_unk", JsonKind::boolean_or_null, false},
                 {"byte_fallback", JsonKind::boolean_or_null, false},
                 {"ignore_merges", JsonKind::boolean_or_null, false}},
                source);
  BpeSpec spec;
  const json* vocabulary = find_member(model, "vocab");
  VIADUCT_CHECK(IoError, vocabulary != nullptr, "{}: model.vocab is missing", source);
  spec.vocabulary = parse_vocabulary(*vocabulary, source);
  const json* merges = find_member(model, "merges");
  VIADUCT_CHECK(IoError, merges != nullptr && merges->is_array(),
                "{}: model.merges is missing or not a list", source);
  spec.merges.reserve(merges->size());
  const bool texts = !merges->empty() && merges->front().is_string();
  for (const json& merge : *merges) {
    VIADUCT_CHECK(IoError, merge.is_string() == texts, "{}: merge {} is no {}, as those before it",
                  source, spec.merges.size(), texts ? "string" : "list");
    // A line of merges.txt that some files carry along.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    spec.merges.push_back(parse_merge(merge, spec.merges.size(), source));
  }
  spec.ignore_merges = bool_member(model, "ignore_merges", source, false);
  if (const json* unknown = find_member(model, "unk_token"))
    spec.unknown_token = unknown->get<std::string>();
  spec.fuse_unknown = bool_member(model, "fuse_unk", source, false);
  spec.byte_fallback = bool_member(model, "byte_fallback", source, false);
  return spec;
}

UnigramSpec parse_unigram(const json& model, std::string_view source) {
  for (const char* name : {"alpha", "nbest_size"}) {
    VIADUCT_CHECK(ConfigError, find_member(model, name) == nullptr,
                  "{}: model.{} (sampling of cuts) is not supported", source, name);
  }
  check_members(
      model, "the model",
      {{"unk_id", JsonKind::count_or_null, false}, {"byte_fallback", JsonKind::boolean, false}},
      source);
  UnigramSpec spec;
  const json* vocabulary = find_member(model, "vocab");
  VIADUCT_CHECK(IoError, vocabulary != nullptr && vocabulary->is_array(),
                "{}: model.vocab is missing or not a list", source);
  for (const json& entry : *vocabulary) {
    VIADUCT_CHECK(
        IoError,
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
        "{}: token {} must be [\"token\", score]", source, spec.vocabulary.size());
    spec.vocabulary.emplace_back(entry[0].get<std::string>(),
                                 score_as_read(entry[1].get<double>()));
  }
  if (const json* unknown = find_member(model, "unk_id"))
    spec.unknown_id = token_id_of(*unknown, source, "model.unk_id");
  spec.byte_fallback = bool_member(model, "byte_fallback", source, false);
  return spec;
}

std::vector<AddedToken> parse_added_tokens(const json& document, std::string_view source) {
  std::vector<AddedToken> added;
  check_members(document, "the file", {{"added_tokens", JsonKind::list, false}}, source);
  const json* tokens = find_member(document, "added_tokens");
  if (tokens == nullptr) return added;
  for (const json& token : *tokens) {
    check_members(token, fmt::format("added token {}", added.size()),
                  {{"id", JsonKind::id},
                   {"content", JsonKind::text},
                   {"single_word", JsonKind::boolean},
                   {"lstrip", JsonKind::boolean},
                   {"rstrip", JsonKind::boolean},
                   {"normalized", JsonKind::boolean},
                   {"special", JsonKind::boolean}},
                  source);
    const int32_t id = token_id_of(*find_member(token, "id"), source, "an added token");
    added.push_back(parse_added_token(token, id, source));
  }
  return added;
}

json step_of(const json& document, std::string_view name) {
  const json* found = find_member(document, name);
  return found == nullptr ? json() : *found;
}

std::unique_ptr<PipelineModel> parse_pipeline(const json& document, const json& model,
                                              const std::string& type, std::string_view source) {
  const json pre_tokenizer = step_of(document, "pre_tokenizer");
  std::unique_ptr<const PieceModel> pieces;
  if (type == "BPE") {
    BpeSpec spec = parse_bpe(model, source);
    spec.byte_level = has_byte_level(pre_tokenizer);
    pieces = std::make_unique<Bpe>(std::move(spec), source);
  } else if (type == "Unigram") {
    VIADUCT_CHECK(ConfigError, !has_byte_level(pre_tokenizer),
                  "{}: a model Unigram after pre_tokenizer ByteLevel is not supported", source);
    pieces = std::make_unique<Unigram>(parse_unigram(model, source), source);
  } else {
    fail<ConfigError>("{}: a model of type {} is not supported, expected BPE or Unigram", source,
                      type);
  }
  return std::make_unique<PipelineModel>(parse_normalizer(step_of(document, "normalizer"), source),
                                         parse_pre_tokenizer(pre_tokenizer, source),
                                         std::move(pieces));
}

/// As in Hugging Face's tokenizers, tokens that the model does not have follow its vocabulary, one
/// after the other, whatever id the file gives. An id in use is left to the checks of `Tokenizer`.
void number_added_tokens(const TokenModel& model, std::vector<AddedToken>& added,
                         std::string_view source) {
  int32_t next = model.token_count();
  std::unordered_map<std::string, int32_t> known;
  for (AddedToken& token : added) {
    if (const auto id = model.find(token.content)) {
      VIADUCT_CHECK(IoError, *id == token.id,
                    "{}: added token \"{}\" has id {}, and the vocabulary has it with id {}",
                    source, token.content, token.id, *id);
      continue;
    }
    const auto [found, fresh] = known.try_emplace(token.content, next);
    next += fresh;
    if (token.id >= next + kMaxIdGap || model.token(token.id)) continue;
    if (const auto other = model.token(found->second)) {
      fail<IoError>(
          "{}: added token \"{}\" is not in the vocabulary, whose ids have gaps: Hugging Face's "
          "tokenizers would give it id {}, which is token \"{}\"",
          source, token.content, found->second, *other);
    }
    token.id = found->second;
  }
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

TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source,
                                   UnsupportedModel unsupported) {
  const json document = parse_json<json>(text, std::string(source));
  check_members(document, "the file", {{"model", JsonKind::object}}, source);
  check_document_members(document, source);
  const json* model = find_member(document, "model");
  // Old files omit the type of a BPE model.
  const bool has_merges = find_member(*model, "merges") != nullptr;
  const std::string type = string_member(*model, "type", source, has_merges ? "BPE" : "untyped");
  TokenizerJson parsed;
  parsed.around = parse_post_processor(step_of(document, "post_processor"), source);
  parsed.added = parse_added_tokens(document, source);
  try {
    parsed.model = parse_pipeline(document, *model, type, source);
    parsed.decoder = parse_decoder(step_of(document, "decoder"), source);
  } catch (const ConfigError&) {
    const bool byte_level = type == "BPE" && has_byte_level(step_of(document, "pre_tokenizer"));
    parsed.model.reset();
    if (byte_level || unsupported == UnsupportedModel::refused) throw;
    return parsed;
  }
  number_added_tokens(*parsed.model, parsed.added, source);
  return parsed;
}

}  // namespace viaduct
