#include "data/tokenizer/sentencepiece_pipeline.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/sentencepiece_models.h"
#include "data/tokenizer/sentencepiece_parts.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using Prefix = SpaceMarkStep::Prefix;
using Piece = SentencePieces::Piece;

/// Pieces get the names that the folder's list of added tokens has for their ids, unless another
/// piece has that name.
void rename_pieces(SentencePieceParts& parts) {
  std::set<std::string> kept;
  const auto& listed = parts.tokens.listed();
  std::vector<Piece>& pieces = parts.pieces.pieces;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!listed.contains(static_cast<int32_t>(id))) kept.insert(pieces[id].text);
  }
  for (const auto& [id, token] : listed) {
    if (static_cast<size_t>(id) < pieces.size() && !kept.contains(token.content))
      pieces[static_cast<size_t>(id)].text = token.content;
  }
}

/// Any of `texts`, the longest first.
RegexNode any_of(std::vector<std::string> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) {
    const auto count = [](const std::string& text) {
      return std::count_if(text.begin(), text.end(),
                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
    };
    return count(a) > count(b);
  });
  std::vector<RegexNode> all;
  for (const std::string_view text : texts) {
    std::vector<RegexNode> characters;
    for (size_t at = 0; at < text.size();) {
      const CodePoint next = first_code_point(text.substr(at));
      characters.push_back(RegexNode::of(CodePointSet(next.value)));
      at += next.bytes;
    }
    all.push_back(RegexNode::of(RegexNode::Kind::sequence, std::move(characters)));
  }
  return RegexNode::of(RegexNode::Kind::alternatives, std::move(all));
}

/// What the model file itself says, so that ids are those of SentencePiece's own library.
SentencePiecePipeline make_plain(SentencePieceParts& parts) {
  SentencePieces& pieces = parts.pieces;
  VIADUCT_CHECK(ConfigError, pieces.bpe || pieces.unigram,
                "{}: a SentencePiece model of words or characters is not supported, expected BPE "
                "or unigrams",
                parts.source);
  if (pieces.begin_id >= 0) parts.name({{"bos_token", pieces.begin.c_str()}});
  if (pieces.end_id >= 0) parts.name({{"eos_token", pieces.end.c_str()}});
  if (pieces.unknown_id >= 0) parts.name({{"unk_token", pieces.unknown.c_str()}});
  parts.tokens.set_additional(parts.own_tokens(false));
  // Tokens are looked for in the text itself, so that each part between them gets its own prefix.
  if (pieces.add_dummy_prefix) {
    for (auto& [id, token] : parts.tokens.listed()) token.normalized = false;
  }
  if (pieces.bpe) rename_pieces(parts);
  std::vector<std::string> user_defined;
  for (const Piece& piece : pieces.pieces) {
    if (piece.type == SentencePieces::kUserDefined && !piece.text.empty())
      user_defined.push_back(piece.text);
  }
  const auto legacy_member = parts.config.find("legacy");
  const bool legacy = legacy_member == parts.config.end() ||
                      (!legacy_member->is_null() && parts.flag("legacy", true));

  Normalizer normalizer;
  parts.add_characters(normalizer);
  if (pieces.remove_extra_whitespaces) {
    normalizer.add(Replacement{Regex("\\A +"), ""});
    normalizer.add(Replacement{Regex(" +\\z"), ""});
    normalizer.add(Replacement{Regex(" {2,}"), " "});
  }
  if (pieces.escape_whitespaces) normalizer.add(Replacement{Regex::from_literal(" "), kPieceSpace});
  PreTokenizer cuts;
  if (pieces.add_dummy_prefix) {
    // A text that begins with a mark gets another one.
    if (legacy)
      normalizer.add(Replacement{Regex(std::string("\\A") + kPieceSpace),
                                 std::string(kPieceSpace) + kPieceSpace});
    cuts.add(mark_spaces(legacy ? Prefix::always : Prefix::first, false));
  }
  if (!user_defined.empty()) cuts.add({Regex(any_of(user_defined)), SplitBehavior::isolated});

  std::unique_ptr<const PieceModel> model;
  if (pieces.bpe) {
    BpeSpec spec = bpe_by_score(pieces);
    spec.ignore_merges = !user_defined.empty();
    model = std::make_unique<Bpe>(std::move(spec), parts.source);
  } else {
    UnigramSpec spec = unigram_of(pieces, pieces.unknown_id);
    for (auto& [token, score] : spec.vocabulary) score = score_as_read(score);
    spec.byte_fallback = pieces.byte_fallback;
    model = std::make_unique<Unigram>(std::move(spec), parts.source);
  }
  SentencePiecePipeline made;
  made.model =
      std::make_unique<PipelineModel>(std::move(normalizer), std::move(cuts), std::move(model));
  made.decoder = decoder_of_marks(pieces.byte_fallback, pieces.add_dummy_prefix,
                                  pieces.byte_fallback || pieces.add_dummy_prefix, parts.source);
  return made;
}

}  // namespace

SentencePiecePipeline make_sentencepiece_pipeline(SentencePieces pieces, SentencePieceKind kind,
                                                  const TokenizerFiles& files,
                                                  const std::string& source, FolderTokens& tokens) {
  const auto given = files.object("tokenizer_config.json");
  const nlohmann::json config = given ? *given : nlohmann::json::object();
  SentencePieceParts parts{std::move(pieces), files, source, tokens, config};
  switch (kind) {
    case SentencePieceKind::llama:
      return make_llama(parts);
    case SentencePieceKind::gemma:
      return make_gemma(parts);
    case SentencePieceKind::t5:
      return make_t5(parts);
    case SentencePieceKind::albert:
      return make_albert(parts);
    case SentencePieceKind::xlm_roberta:
      return make_xlm_roberta(parts);
    case SentencePieceKind::plain:
      break;
  }
  return make_plain(parts);
}

}  // namespace viaduct
