#pragma once
// Reading `tokenizer.json`, the format of Hugging Face's tokenizers library.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_level_bpe.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// The content of a `tokenizer.json`.
struct TokenizerJson {
  /// The model's type and, for BPE, whether it works on bytes: "byte-level BPE", "BPE without a
  /// ByteLevel pre_tokenizer", "Unigram", "WordPiece", …
  std::string kind;
  /// Null unless the kind is byte-level BPE.
  std::unique_ptr<ByteLevelBpe> model;
  std::vector<AddedToken> added;
  TokenTemplate around;
};

/// IoError (naming `source`) for malformed content, ConfigError for features that are not
/// supported.
TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source);

// Parts of the format, in files of their own.

/// "normalizer": null, NFC, NFD, NFKC, NFKD or a Sequence of them.
Normalizer parse_normalizer(const nlohmann::json& value, std::string_view source);
/// "pre_tokenizer": Split, Digits, Punctuation, and ByteLevel at the end; or a Sequence of them.
PreTokenizer parse_pre_tokenizer(const nlohmann::json& value, std::string_view source);
/// "post_processor": null, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing or a
/// Sequence of them; the tokens around a single text.
TokenTemplate parse_post_processor(const nlohmann::json& value, std::string_view source);
/// An object of tokens and ids.
std::vector<std::pair<std::string, int32_t>> parse_vocabulary(const nlohmann::json& value,
                                                              std::string_view source);
/// One entry of "added_tokens", or of "added_tokens_decoder" in `tokenizer_config.json`.
AddedToken parse_added_token(const nlohmann::json& value, int32_t id, std::string_view source);

}  // namespace viaduct
