#pragma once
// Reading `tokenizer.json`, the format of Hugging Face's tokenizers library.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/pipeline_model.h"
#include "data/tokenizer/text_decoder.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// The content of a `tokenizer.json`.
struct TokenizerJson {
  std::unique_ptr<PipelineModel> model;  // null: left to the files beside it
  std::vector<AddedToken> added;
  TokenTemplate around;
  TextDecoder decoder;
};

/// What to do about a model, or a step around it, that is not supported. Byte-level BPE is never
/// left to other files.
enum class UnsupportedModel { refused, left_to_other_files };

/// IoError (naming `source`) for malformed content, ConfigError for features that are not
/// supported, with the name of the component: models other than BPE and Unigram, …
TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source,
                                   UnsupportedModel unsupported = UnsupportedModel::refused);

// Parts of the format, in files of their own.

/// "normalizer": null, or NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace,
/// Precompiled, Nmt, ByteLevel or a Sequence of them.
Normalizer parse_normalizer(const nlohmann::json& value, std::string_view source);
/// "pre_tokenizer": null, or Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit,
/// BertPreTokenizer, CharDelimiterSplit, and ByteLevel at the end; or a Sequence of them.
PreTokenizer parse_pre_tokenizer(const nlohmann::json& value, std::string_view source);
/// "decoder": null, or ByteLevel, ByteFallback, Fuse, Metaspace, Strip, Replace or a Sequence of
/// them.
TextDecoder parse_decoder(const nlohmann::json& value, std::string_view source);
/// "post_processor": null, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing or a
/// Sequence of them; the tokens around a single text.
TokenTemplate parse_post_processor(const nlohmann::json& value, std::string_view source);
/// An object of tokens and ids.
std::vector<std::pair<std::string, int32_t>> parse_vocabulary(const nlohmann::json& value,
                                                              std::string_view source);
/// One entry of "added_tokens", or of "added_tokens_decoder" in `tokenizer_config.json`.
AddedToken parse_added_token(const nlohmann::json& value, int32_t id, std::string_view source);

}  // namespace viaduct
