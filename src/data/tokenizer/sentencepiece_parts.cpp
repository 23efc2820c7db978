#include "data/tokenizer/sentencepiece_parts.h"

#include "base/json.h"
#include "base/json_members.h"

namespace viaduct {

bool SentencePieceParts::flag(std::string_view name, bool otherwise) const {
  return bool_member(config, name, files.where("tokenizer_config.json"), otherwise);
}

bool SentencePieceParts::truth(std::string_view name, bool otherwise) const {
  const auto given = config.find(name);
  return given == config.end() ? otherwise : !given->is_null() && flag(name, otherwise);
}

void SentencePieceParts::name(
    std::initializer_list<std::pair<const char*, const char*>> names) const {
  for (const auto& [name, content] : names) tokens.name_by_default(name, content);
}

std::vector<AddedToken> SentencePieceParts::own_tokens(bool with_user_defined) const {
  std::vector<AddedToken> own;
  for (const SentencePieces::Piece& piece : pieces.pieces) {
    const bool control = piece.type == SentencePieces::kControl;
    const bool user_defined = piece.type == SentencePieces::kUserDefined;
    if ((!control && !(user_defined && with_user_defined)) || piece.text.empty()) continue;
    AddedToken token;
    token.content = piece.text;
    token.special = control;
    own.push_back(std::move(token));
  }
  return own;
}

void SentencePieceParts::add_characters(Normalizer& normalizer) const {
  if (!pieces.characters.empty())
    normalizer.add(Charsmap(Charsmap::Bytes{pieces.characters}, source));
}

SpaceMarkStep mark_spaces(SpaceMarkStep::Prefix prefix, bool cuts) {
  SpaceMarkStep step;
  step.mark = kPieceSpace;
  step.prefix = prefix;
  if (cuts) step.cut.emplace(Regex::from_literal(kPieceSpace), SplitBehavior::merged_with_next);
  return step;
}

TextDecoder decoder_of_marks(bool bytes, bool drops_first, bool fuses, const std::string& source) {
  std::vector<DecodeStep> steps;
  steps.emplace_back(DecodeReplacement{std::string(kPieceSpace), " "});
  if (bytes) steps.emplace_back(DecodeSimple::byte_fallback);
  if (fuses) steps.emplace_back(DecodeSimple::fuse);
  if (drops_first) steps.emplace_back(DecodeStrip{" ", 1, 0});
  return TextDecoder(std::move(steps), source);
}

}  // namespace viaduct
