// Tokenizers of GGUF files as files of a Hugging Face folder.

#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_cuts.h"
#include "checkpoint/gguf_sentencepiece.h"
#include "checkpoint/gguf_tokenizer.h"
#include "data/tokenizer/bpe_document.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {
namespace {

using namespace gguf_cuts;
using Json = BpeJson;

Json pre_tokenizer_of(const Cut& cut) {
  if (cut.digits)
    return {{"type", "Sequence"},
            {"pretokenizers", Json::array({{{"type", "Digits"}, {"individual_digits", true}},
                                           byte_level_json(true)})}};
  if (*cut.pattern == '\0') return byte_level_json(true);
  return {{"type", "Sequence"},
          {"pretokenizers", Json::array({{{"type", "Split"},
                                          {"pattern", {{"Regex", cut.pattern}}},
                                          {"behavior", "Isolated"},
                                          {"invert", false}},
                                         byte_level_json(false)})}};
}

/// The tokens before and after a text; −1: none.
Json template_of(const std::vector<std::string>& tokens, int64_t begin, int64_t end) {
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json specials = Json::object(), single = Json::array(), pair = Json::array();
  const auto add = [&](int64_t id) {
    if (id < 0) return;
    const std::string& token = tokens[static_cast<size_t>(id)];
    specials[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    const Json piece = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
    single.push_back(piece);
    pair.push_back(piece);
  };
  add(begin);
  single.push_back(sequence("A", 0));
  pair.push_back(sequence("A", 0));
  pair.push_back(sequence("B", 1));
  add(end);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

std::string tokenizer_json_of(const GgufKeys& keys, const Cut& cut) {
  const auto& tokens = keys.texts("tokenizer.ggml.tokens");
  const auto& types = keys.integers("tokenizer.ggml.token_type");
  VIADUCT_CHECK(IoError, types.empty() || types.size() == tokens.size(),
                "{}: {} types of {} tokens", keys.where(), types.size(), tokens.size());
  Json vocabulary = Json::object(), added = Json::array();
  const auto type_of = [&](size_t id) { return types.empty() ? int64_t{normal} : types[id]; };
  const auto is_added = [&](size_t id) {
    return type_of(id) == control || type_of(id) == user_defined;
  };
  size_t ordinary_end = 0;  // behind the last token that is cut out of texts by merges alone
  for (size_t id = 0; id < tokens.size(); ++id)
    if (type_of(id) != unused && !is_added(id)) ordinary_end = id + 1;
  std::set<std::string_view> seen;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (type_of(id) == unused) continue;
    VIADUCT_CHECK(IoError, seen.insert(tokens[id]).second, "{}: token \"{}\" appears twice",
                  keys.where(), shown_name(tokens[id]));
    if (is_added(id)) added.push_back(added_token_json(id, tokens[id], type_of(id) == control));
    // Readers give added tokens that the vocabulary lacks the ids behind it.
    if (!is_added(id) || id < ordinary_end) append_member(vocabulary, tokens[id], id);
  }
  Json post_processor = byte_level_json(false);
  const auto border = [&](const char* flag, bool otherwise, const char* id) -> int64_t {
    const int64_t token = keys.flag(flag, otherwise) ? keys.integer(id, -1) : -1;
    return token < static_cast<int64_t>(tokens.size()) ? token : -1;
  };
  const int64_t begin =
      border("tokenizer.ggml.add_bos_token", cut.adds_begin, "tokenizer.ggml.bos_token_id");
  const int64_t end = border("tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id");
  if (begin >= 0 || end >= 0) post_processor = template_of(tokens, begin, end);
  const Json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", cut.nfc ? Json{{"type", "NFC"}} : Json()},
      {"pre_tokenizer", pre_tokenizer_of(cut)},
      {"post_processor", std::move(post_processor)},
      {"decoder", byte_level_json(true)},
      {"model", bpe_model_json(std::move(vocabulary), keys.texts("tokenizer.ggml.merges"),
                               cut.ignore_merges)},
  };
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The added tokens of a whole tokenizer.json; nothing where it is none that is read.
std::optional<AddedTokens> tokens_of_whole(const GgufKeys& keys) {
  if (!keys.has(kWholeFile)) return std::nullopt;
  try {
    return parse_tokenizer(keys.text(kWholeFile), keys.where()).added_tokens();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The tokens with roles by their texts, which templates of conversations ask for.
void add_tokenizer_config(const GgufKeys& keys, std::map<std::string, std::string>& files) {
  const auto& tokens = keys.texts("tokenizer.ggml.tokens");
  const auto& types = keys.integers("tokenizer.ggml.token_type");
  const auto added = tokens.empty() ? tokens_of_whole(keys) : std::nullopt;
  // Named ones are cut out of texts before anything else, which ordinary tokens are not.
  const auto text_of = [&](int64_t id) -> std::optional<std::string> {
    if (added && id >= 0 && id <= std::numeric_limits<int32_t>::max()) {
      const AddedToken* token = added->find(static_cast<int32_t>(id));
      return token != nullptr ? std::optional(token->content) : std::nullopt;
    }
    if (id < 0 || id >= static_cast<int64_t>(tokens.size())) return std::nullopt;
    const auto place = static_cast<size_t>(id);
    const int64_t type = place < types.size() ? types[place] : int64_t{control};
    const bool named = type == unknown || type == control || type == user_defined;
    return named ? std::optional(tokens[place]) : std::nullopt;
  };
  constexpr const char* kName = "tokenizer_config.json";
  auto config = files.contains(kName) ? parse_json<nlohmann::ordered_json>(files[kName], kName)
                                      : nlohmann::ordered_json::object();
  std::vector<NamedToken> named(std::begin(kTextBorders), std::end(kTextBorders));
  named.insert(named.end(), std::begin(kNamedTokens), std::end(kNamedTokens));
  for (const auto& [field, key] : named) {
    if (const auto text = text_of(keys.integer(key, -1))) config[field] = *text;
  }
  if (files.contains("tokenizer.json")) {
    // Else transformers makes its own class for the type of some models, which cuts other tokens;
    // and of this class transformers 4 gives token_type_ids too, which models that generate refuse.
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    config["model_input_names"] = {"input_ids", "attention_mask"};
  }
  if (config.empty()) return;
  files[kName] =
      config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// The ids that begin, end and pad texts. Of two that end one, config.json has the first.
void add_generation_ids(const GgufKeys& keys, std::map<std::string, std::string>& files) {
  nlohmann::json ids = nlohmann::json::object();
  for (const auto& [field, key] : kTextBorders) {
    if (const int64_t id = keys.integer(key, -1); id >= 0) ids[std::string(field) + "_id"] = id;
  }
  const auto end = ids.find("eos_token_id");
  const int64_t turn = keys.integer(kGgufEndOfTurn, -1);
  if (end != ids.end() && turn >= 0 && *end != turn) *end = {*end, turn};
  if (!ids.empty()) files[kGenerationFile] = ids.dump(2) + "\n";
}

}  // namespace

std::map<std::string, std::string> tokenizer_of_gguf(const GgufKeys& keys,
                                                     std::vector<std::string>& notes) {
  std::map<std::string, std::string> files;
  if (keys.has("tokenizer.chat_template"))
    files["chat_template.jinja"] = keys.text("tokenizer.chat_template");
  if (keys.has("tokenizer.chat_template.tool_use"))
    files[std::string(kTemplatesFolder) + "/tool_use" + kTemplateEnd] =
        keys.text("tokenizer.chat_template.tool_use");
  add_generation_ids(keys, files);
  const std::string kind = keys.text("tokenizer.ggml.model", "none");
  if (kind == "llama") {
    files.merge(pieces_of_gguf(keys));
    if (keys.has(kWholeFile)) {
      files["tokenizer.json"] = keys.text(kWholeFile);
      files.erase("tokenizer_config.json");  // its template adds the same tokens
    }
    add_tokenizer_config(keys, files);
    return files;
  }
  if (keys.has(kWholeFile)) {
    files["tokenizer.json"] = keys.text(kWholeFile);
    add_tokenizer_config(keys, files);
    return files;
  }
  if (kind == "none" || kind == "no_vocab") {
    notes.push_back(fmt::format("{}: has no tokenizer", keys.where()));
    return files;
  }
  std::string pre = keys.text("tokenizer.ggml.pre", "default");
  for (const OtherName& other : kOtherNames)
    if (pre == other.name) pre = other.cut;
  const Cut* cut = nullptr;
  for (const Cut& known : kCuts)
    if (pre == known.name) cut = &known;
  if (kind != "gpt2" || cut == nullptr) {
    notes.push_back(fmt::format(
        "{}: its tokenizer ({}, {}) is not supported and was left out (supported: llama; gpt2 with "
        "gpt-2, llama-bpe, qwen2 or smollm)",
        keys.where(), shown_name(kind), shown_name(pre)));
    return files;
  }
  files["tokenizer.json"] = tokenizer_json_of(keys, *cut);
  add_tokenizer_config(keys, files);
  return files;
}

}  // namespace viaduct
