#include "checkpoint/gguf_sentencepiece.h"

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/gguf_cuts.h"

namespace viaduct {
namespace {

constexpr const char* kAddPrefix = "tokenizer.ggml.add_space_prefix";
constexpr const char* kRemoveSpaces = "tokenizer.ggml.remove_extra_whitespaces";

/// Id of the piece of this type, -1 if there is none.
int64_t find_type(const SentencePieces& pieces, int32_t type) {
  for (size_t id = 0; id < pieces.pieces.size(); ++id)
    if (pieces.pieces[id].type == type) return static_cast<int64_t>(id);
  return -1;
}

}  // namespace

void add_gguf_pieces(GgufHeadWriter& head, const SentencePieces& pieces, int64_t vocabulary) {
  const auto count = static_cast<int64_t>(pieces.pieces.size());
  VIADUCT_CHECK(IoError, count <= vocabulary,
                "GGUF: the tokenizer has {} pieces, but the model has a vocabulary of {}", count,
                vocabulary);
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const SentencePieces::Piece& piece : pieces.pieces) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(piece.type);
  }
  for (int64_t id = count; id < vocabulary; ++id) {
    texts.push_back(fmt::format("[PAD{}]", id));
    scores.push_back(-10000);
    types.push_back(gguf_cuts::unused);
  }
  head.add_text("tokenizer.ggml.model", "llama");
  head.add_text("tokenizer.ggml.pre", "default");
  head.add_texts("tokenizer.ggml.tokens", texts);
  head.add_f32s("tokenizer.ggml.scores", scores);
  head.add_i32s("tokenizer.ggml.token_type", types);
  if (const int64_t unknown = find_type(pieces, 2); unknown >= 0)
    head.add_u32("tokenizer.ggml.unknown_token_id", unknown);
  head.add_flag(kAddPrefix, pieces.add_dummy_prefix);
  head.add_flag(kRemoveSpaces, pieces.remove_extra_whitespaces);
}

std::map<std::string, std::string> pieces_of_gguf(const GgufKeys& keys) {
  const auto& texts = keys.texts("tokenizer.ggml.tokens");
  const auto& scores = keys.numbers("tokenizer.ggml.scores");
  const auto& types = keys.integers("tokenizer.ggml.token_type");
  VIADUCT_CHECK(IoError,
                !texts.empty() && scores.size() == texts.size() && types.size() == texts.size(),
                "{}: {} tokens with {} scores and {} types", keys.where(), texts.size(),
                scores.size(), types.size());
  SentencePieces pieces;
  pieces.add_dummy_prefix = keys.flag(kAddPrefix, true);
  pieces.remove_extra_whitespaces = keys.flag(kRemoveSpaces, false);
  for (size_t id = 0; id < texts.size(); ++id) {
    VIADUCT_CHECK(IoError, types[id] >= 1 && types[id] <= 6, "{}: token {} has the type {}",
                  keys.where(), id, types[id]);
    pieces.pieces.push_back(
        {texts[id], static_cast<float>(scores[id]), static_cast<int32_t>(types[id])});
  }
  // The rest of the embedding has no pieces.
  while (!pieces.pieces.empty() && pieces.pieces.back().type == gguf_cuts::unused &&
         pieces.pieces.back().text.starts_with("[PAD"))
    pieces.pieces.pop_back();
  for (const auto& [key, text] : {std::pair{"tokenizer.ggml.bos_token_id", &pieces.begin},
                                  std::pair{"tokenizer.ggml.eos_token_id", &pieces.end},
                                  std::pair{"tokenizer.ggml.unknown_token_id", &pieces.unknown}}) {
    const int64_t id = keys.integer(key, -1);
    if (id >= 0 && id < static_cast<int64_t>(pieces.pieces.size()))
      *text = pieces.pieces[static_cast<size_t>(id)].text;
  }
  std::map<std::string, std::string> files{{"tokenizer.model", write_sentencepieces(pieces)}};
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  // llama.cpp begins the texts of this kind of model, unless the file says otherwise.
  config["add_bos_token"] = keys.flag("tokenizer.ggml.add_bos_token", true);
  config["add_eos_token"] = keys.flag("tokenizer.ggml.add_eos_token", false);
  // Spaces of a text are marks before pieces are looked for: such a token is never found as one.
  for (size_t id = 0; id < texts.size(); ++id) {
    if (types[id] != gguf_cuts::user_defined || texts[id].find(' ') == std::string::npos) continue;
    config["added_tokens_decoder"][std::to_string(id)] = {
        {"content", texts[id]}, {"lstrip", false},      {"normalized", false},
        {"rstrip", false},      {"single_word", false}, {"special", false}};
  }
  files["tokenizer_config.json"] = config.dump(2) + "\n";
  return files;
}

}  // namespace viaduct
