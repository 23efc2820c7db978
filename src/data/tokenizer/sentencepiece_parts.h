#pragma once
// What the kinds of SentencePiece tokenizers are made of. For the .cpp files of this folder.

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/sentencepiece_pipeline.h"

namespace viaduct {

/// What all kinds work with.
struct SentencePieceParts {
  SentencePieces pieces;
  const TokenizerFiles& files;
  const std::string& source;
  FolderTokens& tokens;
  const nlohmann::json& config;  // tokenizer_config.json, or an empty object

  /// A member of the configuration.
  bool flag(std::string_view name, bool otherwise) const;
  /// The same for classes that take null as false.
  bool truth(std::string_view name, bool otherwise) const;
  /// Names special tokens, unless the files do.
  void name(std::initializer_list<std::pair<const char*, const char*>> names) const;
  /// The content of a special token that has a name. transformers spells one that is null "None".
  std::string named(const char* name) const { return tokens.named(name).value_or("None"); }
  /// Control pieces are special tokens, those of the user added ones.
  std::vector<AddedToken> own_tokens(bool with_user_defined = true) const;
  /// Adds the model's table of characters.
  void add_characters(Normalizer& normalizer) const;
};

/// U+2581, which stands for a space.
inline constexpr const char* kPieceSpace = "\u2581";

/// Spaces become marks; `cuts`: each begins a piece.
SpaceMarkStep mark_spaces(SpaceMarkStep::Prefix prefix, bool cuts);

/// Marks become spaces, and bytes characters, where such tokens are spelled <0x41>; a space at the
/// begin is left out if the kind puts one there.
TextDecoder decoder_of_marks(bool bytes, bool drops_first, bool fuses, const std::string& source);

/// The kinds that a class names.
SentencePiecePipeline make_llama(const SentencePieceParts& parts);
SentencePiecePipeline make_gemma(const SentencePieceParts& parts);
SentencePiecePipeline make_t5(const SentencePieceParts& parts);
SentencePiecePipeline make_albert(const SentencePieceParts& parts);
SentencePiecePipeline make_xlm_roberta(const SentencePieceParts& parts);

}  // namespace viaduct
