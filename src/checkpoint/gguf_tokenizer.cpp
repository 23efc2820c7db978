#include "checkpoint/gguf_tokenizer.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_cuts.h"
#include "checkpoint/gguf_sentencepiece.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {
namespace {

using namespace gguf_cuts;
using Json = nlohmann::json;

struct Token {
  std::string text;
  TokenType type = normal;
};

/// A tokenizer as stored in the files.
struct Read {
  std::map<int64_t, Token> tokens;
  std::vector<std::string> merges;
  const Cut* cut = nullptr;  // null: llama.cpp has no name for it
  bool adds_begin = false;
};

constexpr const char *kTokenizer = "tokenizer.json", *kConfiguration = "tokenizer_config.json",
                     *kVocabulary = "vocab.json", *kMerges = "merges.txt",
                     *kPieces = "tokenizer.model";
constexpr const char *kDefault = "default", *kToolUse = "tool_use",
                     *kTemplateKey = "tokenizer.chat_template";

Json parse(const TokenizerFiles& files, const char* name) {
  return parse_json<Json>(files.text(name), files.where(name));
}

const Json& member(const Json& object, const char* name) {
  static const Json none;
  return object.is_object() && object.contains(name) ? object[name] : none;
}

bool is_type(const Json& step, const char* type) {
  return member(step, "type") == type;
}

/// The steps of a sequence, or the one step.
std::vector<Json> steps_of(const Json& value, const char* list) {
  if (!is_type(value, "Sequence"))
    return value.is_object() ? std::vector{value} : std::vector<Json>{};
  const Json& steps = member(value, list);
  return steps.is_array() ? std::vector<Json>(steps.begin(), steps.end()) : std::vector<Json>{};
}

const Cut* cut_of(const Json& pre_tokenizer) {
  std::string pattern;
  bool by_bytes = false, digits = false;
  for (const Json& step : steps_of(pre_tokenizer, "pretokenizers")) {
    if (is_type(step, "ByteLevel")) {
      by_bytes = true;
      if (member(step, "add_prefix_space") == true) return nullptr;
    } else if (is_type(step, "Digits") && member(step, "individual_digits") == true) {
      digits = true;
    } else if (is_type(step, "Split") && pattern.empty()) {
      const Json& regex = member(member(step, "pattern"), "Regex");
      if (!regex.is_string()) return nullptr;
      pattern = regex.get<std::string>();
    } else {
      return nullptr;
    }
  }
  for (const Cut& cut : kCuts)
    if (by_bytes && pattern == cut.pattern && digits == cut.digits) return &cut;
  return nullptr;
}

bool adds_begin(const Json& post_processor) {
  for (const Json& step : steps_of(post_processor, "processors")) {
    const Json& single = member(step, "single");
    if (is_type(step, "TemplateProcessing") && single.is_array() && !single.empty() &&
        single[0].is_object() && single[0].contains("SpecialToken"))
      return true;
  }
  return false;
}

void add_vocabulary(const Json& vocabulary, Read& read, const std::string& where) {
  VIADUCT_CHECK(IoError, vocabulary.is_object(), "{}: the vocabulary is not an object", where);
  for (const auto& [text, id] : vocabulary.items()) {
    const auto number = json_count(id);
    VIADUCT_CHECK(IoError, number, "{}: token \"{}\" has no id", where, shown_name(text));
    read.tokens[*number] = {text, normal};
  }
}

/// A tokenizer.json; nothing if it is not byte-level BPE.
std::optional<Read> read_tokenizer_json(const TokenizerFiles& files) {
  const Json file = parse(files, kTokenizer);
  const Json& model = member(file, "model");
  const auto pre = steps_of(member(file, "pre_tokenizer"), "pretokenizers");
  const bool byte_level = std::any_of(pre.begin(), pre.end(),
                                      [](const Json& step) { return is_type(step, "ByteLevel"); });
  if (!member(model, "merges").is_array() || !byte_level) return std::nullopt;
  Read read;
  const std::string where = files.where(kTokenizer);
  add_vocabulary(member(model, "vocab"), read, where);
  for (const Json& merge : member(model, "merges")) {
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    VIADUCT_CHECK(IoError, pair || merge.is_string(), "{}: a merge is neither a text nor a pair",
                  where);
    read.merges.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                               : merge.get<std::string>());
  }
  if (const Json& added = member(file, "added_tokens"); added.is_array()) {
    for (const Json& token : added) {
      const auto id = json_count(member(token, "id"));
      const Json& content = member(token, "content");
      VIADUCT_CHECK(IoError, id && content.is_string(), "{}: an added token has no id or content",
                    where);
      read.tokens[*id] = {content.get<std::string>(),
                          member(token, "special") == true ? control : user_defined};
    }
  }
  read.cut = cut_of(member(file, "pre_tokenizer"));
  if (read.cut != nullptr && (member(model, "ignore_merges") == true) != read.cut->ignore_merges)
    read.cut = nullptr;
  read.adds_begin = adds_begin(member(file, "post_processor"));
  return read;
}

/// GPT-2's own two files.
Read read_vocabulary_and_merges(const TokenizerFiles& files) {
  Read read;
  add_vocabulary(parse(files, kVocabulary), read, files.where(kVocabulary));
  std::istringstream lines(files.text(kMerges));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) read.merges.push_back(line);
  }
  for (auto& [id, token] : read.tokens)
    if (token.text == "<|endoftext|>") token.type = control;
  read.cut = &kCuts[0];
  return read;
}

/// The chat templates of a model by name: "default", "tool_use" …
std::map<std::string, std::string> chat_templates(const TokenizerFiles& files) {
  std::map<std::string, std::string> templates;
  if (files.has("chat_template.jinja")) templates[kDefault] = files.text("chat_template.jinja");
  for (const char* name : {kDefault, kToolUse}) {
    const std::string file = std::string(kTemplatesFolder) + "/" + name + kTemplateEnd;
    if (files.has(file)) templates[name] = files.text(file);
  }
  if (!templates.empty() || !files.has(kConfiguration)) return templates;
  const Json file = parse(files, kConfiguration);
  const Json& given = member(file, "chat_template");
  if (given.is_string()) templates[kDefault] = given.get<std::string>();
  if (!given.is_array()) return templates;
  for (const Json& entry : given) {
    const Json &name = member(entry, "name"), &text = member(entry, "template");
    if (name.is_string() && text.is_string())
      templates[name.get<std::string>()] = text.get<std::string>();
  }
  return templates;
}

/// As llama.cpp names them: tokenizer.chat_template, and tokenizer.chat_template.NAME for others.
void add_chat_templates(GgufHeadWriter& head, const TokenizerFiles& files) {
  std::vector<std::string> others;
  for (const auto& [name, text] : chat_templates(files)) {
    if (name == kDefault) {
      head.add_text(kTemplateKey, text);
    } else {
      head.add_text(fmt::format("{}.{}", kTemplateKey, name), text);
      others.push_back(name);
    }
  }
  if (!others.empty()) head.add_texts("tokenizer.chat_templates", others);
}

/// Whether tokens are put around texts, as tokenizer_config.json says.
void add_borders(GgufHeadWriter& head, const TokenizerFiles& files) {
  if (!files.has(kConfiguration)) return;
  const Json file = parse(files, kConfiguration);
  for (const char* field : {"add_bos_token", "add_eos_token"}) {
    if (const Json& flag = member(file, field); flag.is_boolean())
      head.add_flag(std::string("tokenizer.ggml.") + field, flag.get<bool>());
  }
}

/// The added tokens of the files, those that only tokenizer_config.json and its like name included.
/// None of a tokenizer that is not supported here.
std::vector<AddedToken> added_tokens(const TokenizerFiles& files) {
  const bool any =
      files.has(kTokenizer) || files.has(kPieces) || (files.has(kVocabulary) && files.has(kMerges));
  if (!any) return {};
  try {
    return load_tokenizer(files).added_tokens().tokens();
  } catch (const ConfigError&) {
    return {};
  }
}

TokenType type_of(const AddedToken& token) {
  return token.special ? control : user_defined;
}

/// Writes the tokens with roles that a model's configuration does not have, as the tokenizer's
/// names them. `unknown`: unk_token as well, which pieces have of their own.
void add_named_tokens(GgufHeadWriter& head, const TokenizerFiles& files, int64_t vocabulary,
                      const std::vector<AddedToken>& added, bool unknown) {
  std::vector<Json> naming;
  for (const char* file : {kConfiguration, "special_tokens_map.json"})
    if (files.has(file)) naming.push_back(parse(files, file));
  for (const auto& [role, key] : kNamedTokens) {
    if (!unknown && std::string_view(role) == "unk_token") continue;
    for (const Json& document : naming) {
      const Json& given = member(document, role);
      const Json& text = given.is_object() ? member(given, "content") : given;
      if (!text.is_string()) continue;
      const auto token = std::find_if(added.begin(), added.end(), [&](const AddedToken& one) {
        return one.content == text.get_ref<const std::string&>();
      });
      if (token != added.end() && token->id < vocabulary) head.add_u32(key, token->id);
      break;
    }
  }
}

/// Added tokens after the pieces; ids in between get unused pieces.
void add_further_pieces(SentencePieces& pieces, const std::vector<AddedToken>& added) {
  for (const AddedToken& token : added) {
    const auto place = static_cast<size_t>(token.id);
    if (place < pieces.pieces.size() && pieces.pieces[place].type != unused) continue;
    while (pieces.pieces.size() <= place)
      pieces.pieces.push_back({fmt::format("[PAD{}]", pieces.pieces.size()), -10000, unused});
    pieces.pieces[place] = {token.content, -1000, type_of(token)};
  }
}

/// The text of tokenizer.json with the added tokens that it lacks.
std::string whole_file(const TokenizerFiles& files, const std::vector<AddedToken>& added) {
  std::string text = files.text(kTokenizer);
  auto file = parse_json<nlohmann::ordered_json>(text, files.where(kTokenizer));
  std::set<int64_t> listed;
  if (file.contains("added_tokens") && file["added_tokens"].is_array()) {
    for (const auto& token : file["added_tokens"])
      if (token.contains("id")) listed.insert(json_count(token["id"]).value_or(-1));
  } else {
    file["added_tokens"] = nlohmann::ordered_json::array();
  }
  bool complete = true;
  for (const AddedToken& token : added) {
    if (!listed.insert(token.id).second) continue;
    complete = false;
    file["added_tokens"].push_back({{"id", token.id},
                                    {"content", token.content},
                                    {"single_word", token.single_word},
                                    {"lstrip", token.lstrip},
                                    {"rstrip", token.rstrip},
                                    {"normalized", token.normalized},
                                    {"special", token.special}});
  }
  return complete ? text : file.dump();
}

}  // namespace

std::vector<std::string> add_gguf_tokenizer(GgufHeadWriter& head, const ModelConfig& model,
                                            const TokenizerFiles& files) {
  for (const auto& [key, id] :
       {std::pair{"tokenizer.ggml.bos_token_id", model.begin_token},
        std::pair{"tokenizer.ggml.eos_token_id",
                  model.end_tokens.empty() ? int64_t{-1} : model.end_tokens.front()},
        std::pair{"tokenizer.ggml.padding_token_id", model.padding_token}}) {
    if (id >= 0) head.add_u32(key, id);
  }
  const bool whole = files.has(kTokenizer);
  const std::vector<AddedToken> added = added_tokens(files);
  std::optional<Read> read;
  if (whole) {
    head.add_text(kWholeFile, whole_file(files, added));
    read = read_tokenizer_json(files);
  } else if (files.has(kVocabulary) && files.has(kMerges)) {
    read = read_vocabulary_and_merges(files);
  }
  add_chat_templates(head, files);
  const bool sentencepiece = files.has(kPieces);
  if (!read && sentencepiece) {
    SentencePieces pieces = read_sentencepieces(files.text(kPieces), files.where(kPieces));
    if (pieces.bpe) {
      add_further_pieces(pieces, added);
      add_gguf_pieces(head, pieces, model.vocabulary);
      add_named_tokens(head, files, model.vocabulary, added, false);
      add_borders(head, files);
      if (pieces.characters.empty()) return {};
      return {
          "GGUF: the tokenizer.model normalizes characters before it splits text, which llama.cpp "
          "does not: characters outside ASCII may get other tokens"};
    }
  }
  if (!read) {
    head.add_text("tokenizer.ggml.model", "none");
    return {whole || sentencepiece
                ? "GGUF: the tokenizer is neither byte-level BPE nor a tokenizer.model of BPE; the "
                  "file is written without a tokenizer"
                : "GGUF: the model has no tokenizer, so the file has none"};
  }
  for (const AddedToken& token : added) read->tokens[token.id] = {token.content, type_of(token)};
  std::vector<std::string> tokens, notes;
  std::vector<int32_t> types;
  for (int64_t id = 0; id < model.vocabulary; ++id) {
    const auto at = read->tokens.find(id);
    const bool known = at != read->tokens.end();
    tokens.push_back(known ? at->second.text : fmt::format("[PAD{}]", id));
    types.push_back(known ? at->second.type : unused);
  }
  VIADUCT_CHECK(IoError, read->tokens.empty() || read->tokens.rbegin()->first < model.vocabulary,
                "GGUF: the tokenizer has token {}, but the model has a vocabulary of {}",
                read->tokens.rbegin()->first, model.vocabulary);
  head.add_text("tokenizer.ggml.model", "gpt2");
  if (read->cut == nullptr) {
    notes.push_back(
        "GGUF: llama.cpp has no name for how this tokenizer splits text before merging (known "
        "here: gpt-2, llama-bpe, qwen2, smollm); it will use its default split");
  }
  head.add_text("tokenizer.ggml.pre", read->cut != nullptr ? read->cut->name : "default");
  head.add_texts("tokenizer.ggml.tokens", tokens);
  head.add_i32s("tokenizer.ggml.token_type", types);
  head.add_texts("tokenizer.ggml.merges", read->merges);
  head.add_flag("tokenizer.ggml.add_bos_token", read->adds_begin);
  add_named_tokens(head, files, model.vocabulary, added, true);
  return notes;
}

}  // namespace viaduct
