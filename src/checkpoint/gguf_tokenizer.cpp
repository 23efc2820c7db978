#include "checkpoint/gguf_tokenizer.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_chat_templates.h"
#include "checkpoint/gguf_cuts.h"
#include "checkpoint/gguf_sentencepiece.h"
#include "checkpoint/gguf_text_borders.h"
#include "checkpoint/gguf_tokenizer_differences.h"
#include "checkpoint/gguf_whole_tokenizer.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/vocabulary_files.h"

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
};

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
  const Json file = parse(files, kTokenizerFile);
  const Json& model = member(file, "model");
  const auto pre = steps_of(member(file, "pre_tokenizer"), "pretokenizers");
  const bool byte_level = std::any_of(pre.begin(), pre.end(),
                                      [](const Json& step) { return is_type(step, "ByteLevel"); });
  if (!member(model, "merges").is_array() || !byte_level) return std::nullopt;
  Read read;
  const std::string where = files.where(kTokenizerFile);
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
  return read;
}

/// The two files of GPT-2's and similar classes.
Read read_vocabulary_and_merges(const TokenizerFiles& files, bool supported) {
  Read read;
  add_vocabulary(parse(files, kVocabularyFile), read, files.where(kVocabularyFile));
  std::istringstream lines(files.text(kMergesFile));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) read.merges.push_back(line);
  }
  if (!supported) return read;
  const bool qwen2 = vocabulary_class(files) == "Qwen2Tokenizer";
  for (const Cut& cut : kCuts)
    if (cut.name == std::string_view(qwen2 ? "qwen2" : "gpt-2")) read.cut = &cut;
  return read;
}

/// The tokenizer of the files; none where there is none, or one that is not supported.
std::optional<Tokenizer> opened(const TokenizerFiles& files, std::vector<std::string>& notes) {
  const bool any = files.has(kTokenizerFile) || sentencepiece_file(files) != nullptr ||
                   (files.has(kVocabularyFile) && files.has(kMergesFile));
  if (!any) return std::nullopt;
  try {
    return load_tokenizer(files);
  } catch (const ConfigError& error) {
    notes.push_back(fmt::format(
        "GGUF: the tokens that the files beside the vocabulary name, and those around texts, are "
        "left out, for the tokenizer is not supported: {}",
        error.what()));
    return std::nullopt;
  }
}

TokenType type_of(const AddedToken& token) {
  return token.special ? control : user_defined;
}

/// Writes the tokens with roles that a model's configuration does not have, as the tokenizer's
/// files or class name them. `unknown`: unk_token as well, which pieces have of their own.
void add_named_tokens(GgufHeadWriter& head, const Tokenizer& tokenizer, int64_t vocabulary,
                      bool unknown) {
  const auto& named = tokenizer.special_ids().named;
  for (const auto& [role, key] : kNamedTokens) {
    if (!unknown && std::string_view(role) == "unk_token") continue;
    const auto token = named.find(role);
    if (token != named.end() && token->second < vocabulary) head.add_u32(key, token->second);
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

/// llama.cpp puts a space before texts, or not, as the file says; each run of spaces counts.
void take_space_rules(SentencePieces& pieces, const Tokenizer& tokenizer,
                      std::vector<std::string>& notes) {
  const auto first = tokenizer.encode("a");
  const auto spelling = first.empty() ? std::nullopt : tokenizer.token(first.front());
  pieces.add_dummy_prefix = spelling && spelling->starts_with("\u2581");
  pieces.remove_extra_whitespaces = tokenizer.encode("a  b") == tokenizer.encode("a b");
  if (pieces.remove_extra_whitespaces) {
    notes.push_back(
        "GGUF: the tokenizer makes one space of several and drops those at the begin and the end "
        "of texts; llama.cpp keeps them: such texts get other tokens");
  }
}

void add_byte_level(GgufHeadWriter& head, const ModelConfig& model, Read read,
                    const std::vector<AddedToken>& added, std::vector<std::string>& notes) {
  for (const AddedToken& token : added) read.tokens[token.id] = {token.content, type_of(token)};
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (int64_t id = 0; id < model.vocabulary; ++id) {
    const auto at = read.tokens.find(id);
    const bool known = at != read.tokens.end();
    tokens.push_back(known ? at->second.text : fmt::format("[PAD{}]", id));
    types.push_back(known ? at->second.type : unused);
  }
  VIADUCT_CHECK(IoError, read.tokens.empty() || read.tokens.rbegin()->first < model.vocabulary,
                "GGUF: the tokenizer has token {}, but the model has a vocabulary of {}",
                read.tokens.rbegin()->first, model.vocabulary);
  head.add_text("tokenizer.ggml.model", "gpt2");
  if (read.cut == nullptr) {
    notes.push_back(
        "GGUF: llama.cpp has no name for how this tokenizer splits text before merging (known "
        "here: gpt-2, llama-bpe, qwen2, smollm); it will use its default split");
  }
  head.add_text("tokenizer.ggml.pre", read.cut != nullptr ? read.cut->name : "default");
  head.add_texts("tokenizer.ggml.tokens", tokens);
  head.add_i32s("tokenizer.ggml.token_type", types);
  head.add_texts("tokenizer.ggml.merges", read.merges);
}

}  // namespace

std::vector<std::string> add_gguf_tokenizer(GgufHeadWriter& head, const ModelConfig& model,
                                            const TokenizerFiles& files) {
  std::vector<std::string> notes;
  const std::optional<Tokenizer> tokenizer = opened(files, notes);
  const std::vector<AddedToken> added =
      tokenizer ? tokenizer->added_tokens().tokens() : std::vector<AddedToken>{};
  add_gguf_text_borders(head, model, tokenizer ? &*tokenizer : nullptr, notes);
  add_gguf_chat_templates(head, files);
  if (tokenizer && tokenizer->splits_special()) {
    notes.push_back(
        "GGUF: split_special_tokens has no key and is left out: special tokens in a text will be "
        "recognised");
  }
  const bool whole = files.has(kTokenizerFile);
  const char* pieces_file = sentencepiece_file(files);
  std::optional<Read> read;
  if (whole) {
    read = read_tokenizer_json(files);
  } else if (pieces_file == nullptr && files.has(kVocabularyFile) && files.has(kMergesFile)) {
    read = read_vocabulary_and_merges(files, tokenizer.has_value());
  }
  std::optional<SentencePieces> pieces;
  if (!read && pieces_file != nullptr)
    pieces = read_sentencepieces(files.text(pieces_file), files.where(pieces_file));
  if (read) {
    add_byte_level(head, model, *std::move(read), added, notes);
  } else if (pieces && pieces->bpe) {
    if (tokenizer) take_space_rules(*pieces, *tokenizer, notes);
    add_further_pieces(*pieces, added);
    add_gguf_pieces(head, *pieces, model.vocabulary);
  } else {
    head.add_text("tokenizer.ggml.model", "none");
    notes.push_back(
        whole || pieces
            ? "GGUF: the tokenizer is neither byte-level BPE nor a tokenizer.model of "
              "BPE; the file is written without a tokenizer, its special tokens and those "
              "that it puts around texts, and llama.cpp reads and writes no text with "
              "it"
            : "GGUF: the model has no tokenizer, so the file has none, and llama.cpp "
              "reads and writes no text with it");
    if (whole) {
      if (tokenizer) add_named_tokens(head, *tokenizer, model.vocabulary, true);
      head.add_text(kWholeFile, whole_tokenizer_json(files, added));
    }
    return notes;
  }
  if (tokenizer) {
    add_named_tokens(head, *tokenizer, model.vocabulary, !pieces);
    const GgufKeys keys = parse_gguf(head.head(), "GGUF", GgufContent::head).keys;
    for (std::string& note : gguf_tokenizer_differences(keys, *tokenizer))
      notes.push_back(std::move(note));
  }
  if (whole) head.add_text(kWholeFile, whole_tokenizer_json(files, added));
  return notes;
}

}  // namespace viaduct
