#pragma once
// Tokenizers: text to ids and back. One immutable value for all kinds; a thread that encodes many
// texts keeps its own `EncodeCache`.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/space_cleanup.h"
#include "data/tokenizer/text_decoder.h"
#include "data/tokenizer/token_model.h"
#include "data/tokenizer/token_places.h"

namespace viaduct {

struct EncodeOptions {
  /// Treats special tokens in the text as plain text instead of recognising them.
  bool special_as_text = false;
  /// Adds the template's tokens around the ids (a beginning or an end token).
  bool add_special_tokens = false;
  /// Bytes that are not UTF-8 become the tokens of these bytes, instead of U+FFFD: decoding gives
  /// exactly the same bytes. ConfigError for models that encode only text.
  bool exact_bytes = false;
  /// Treats all added tokens in the text as plain text, special or not.
  bool added_as_text = false;
};

/// Ids with a meaning for training and sampling; absent if the tokenizer does not define them.
struct SpecialIds {
  std::optional<int32_t> bos, eos, pad;
  /// Closes a document in training data: the end-of-text token. It is `eos`, except for chat models
  /// whose `eos` ends a message and which have another for the end of a text.
  std::optional<int32_t> eod;
  /// All ids that end a generated text (`eos` included).
  std::vector<int32_t> stop;
  /// Those that the files or the class name: "unk_token", "mask_token" and the like.
  std::map<std::string, int32_t> named = {};
};

/// The ids that `add_special_tokens` puts before and after.
struct TokenTemplate {
  std::vector<int32_t> before, after;
  /// What happens to the spans of tokens, in order.
  std::vector<TokenPlaces::Trim> trims = {};
};

/// Memory that makes repeated encoding fast. Belongs to one tokenizer and one thread at a time.
class EncodeCache {
 public:
  explicit EncodeCache(std::unique_ptr<TokenModel::Scratch> scratch)
      : scratch_(std::move(scratch)) {}

 private:
  friend class Tokenizer;
  std::unique_ptr<TokenModel::Scratch> scratch_;
};

class Tokenizer {
 public:
  /// The parts of a tokenizer. Added tokens that the model does not have extend its vocabulary.
  struct Parts {
    std::unique_ptr<const TokenModel> model;
    std::vector<AddedToken> added;
    TokenTemplate around;
    SpecialIds special;
    /// From spellings to text; none: the model decodes.
    std::optional<TextDecoder> decoder;
    /// Whether decoded text loses spaces before punctuation (space_cleanup.h).
    bool cleans_spaces = false;
    /// Whether special tokens in a text are always plain text.
    bool splits_special = false;
  };
  /// IoError, naming `source`, if an added token's id belongs to another token, if an id is out of
  /// range, and if `around` or `special` contain ids that are no tokens.
  Tokenizer(Parts parts, std::string_view source);

  /// The kind, for people: "byte-level BPE".
  std::string_view kind() const { return model_->kind(); }
  /// The largest id + 1, added tokens included.
  int32_t vocab_size() const { return vocab_size_; }
  const SpecialIds& special_ids() const { return special_; }
  const TokenTemplate& around() const { return around_; }
  const AddedTokens& added_tokens() const { return added_; }
  const TokenModel& model() const { return *model_; }

  EncodeCache make_cache() const { return EncodeCache(model_->make_scratch()); }
  /// Appends the ids of `text` to `ids` and returns the bytes without one. Text that is not UTF-8
  /// has each maximal ill-formed part replaced by U+FFFD first, unless `options` request exact
  /// bytes.
  UnknownBytes encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                      std::vector<int32_t>& ids) const;
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// As `encode`; also appends the characters of the text that each id comes from. An ill-formed
  /// part that U+FFFD replaces counts as one character. ConfigError for exact bytes.
  UnknownBytes encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                      std::vector<int32_t>& ids, std::vector<TokenSpan>& spans) const;

  /// The exact bytes that `ids` stand for (not always UTF-8). Added tokens give their text.
  /// IoError for ids that are no tokens.
  std::string decode(std::span<const int32_t> ids) const;
  /// Appends the bytes of one token; false if `id` is not a token (an id between tokens, or
  /// beyond).
  bool decode(int32_t id, DecodeState& state, std::string& bytes) const;

  /// The text of `ids` as Hugging Face's libraries decode it: well-formed UTF-8, without spaces
  /// before punctuation where the configuration says so. IoError for ids that are no tokens.
  std::string decode_text(std::span<const int32_t> ids) const;

  /// The treatment of UnknownBytes, for messages: "left out", "became <unk>".
  std::string unknown_bytes_became() const;

  /// The id of a token as the vocabulary spells it.
  std::optional<int32_t> find(std::string_view token) const;
  std::optional<std::string> token(int32_t id) const;
  /// Whether its spelling is that of a special token, which another id may have as well.
  bool is_special(int32_t id) const;
  /// Whether text without special tokens leaves it out, as in Hugging Face's libraries: by what
  /// `decode_text` shows of it, which is not the spelling of a token that the normalizer changes.
  bool is_left_out(int32_t id) const;
  /// Whether special tokens in a text are always plain text.
  bool splits_special() const { return splits_special_; }

 private:
  friend class DecodeStream;
  struct Encoding;
  /// `places` may be null.
  UnknownBytes encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                      std::vector<int32_t>& ids, TokenPlaces* places) const;
  /// Appends what a token adds to the text; bytes of several tokens may make up a character.
  bool decode_text(int32_t id, DecodeState& state, std::string& bytes) const;

  std::unique_ptr<const TokenModel> model_;
  std::optional<TextDecoder> decoder_;
  bool splits_special_ = false;
  bool cleans_spaces_ = false;
  AddedTokens added_;
  bool any_normalized_ = false;
  TokenTemplate around_;
  SpecialIds special_;
  int32_t vocab_size_ = 0;
};

/// Decodes text incrementally, to what `Tokenizer::decode_text` gives for all tokens together:
/// whole characters only; what later tokens may still change is held back.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer) : DecodeStream(tokenizer, {}) {}
  /// Only what further tokens add to the text of `before`: a decoder that leaves out the first
  /// space of a text keeps it there.
  DecodeStream(const Tokenizer& tokenizer, std::span<const int32_t> before);

  /// The text that the next token completes: well-formed UTF-8, ill-formed bytes and ids that are
  /// no tokens as U+FFFD.
  std::string push(int32_t id);
  /// The remaining text at the end.
  std::string finish();

 private:
  /// `more` without what the text of `before` ends with.
  std::string beyond(std::string more);

  const Tokenizer& tokenizer_;
  DecodeState state_;
  std::string held_;
  std::optional<SpaceCleanup> cleanup_;
  std::string before_end_;  // of the text of `before`, still to come
};

/// What a DecodeStream behind `before` gives for all ids together: a model may choose ids that its
/// tokenizer does not have, and they are shown.
std::string shown_text(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                       std::span<const int32_t> before = {});

/// Reads the tokenizer of a Hugging Face folder, or of a folder that holds tokenizer files:
/// `tokenizer.json` first, else `tokenizer.model` (SentencePiece), else `vocab.json` and
/// `merges.txt`. Tokens that only the files beside it name are added (folder_tokens.h). IoError for
/// missing or malformed files, ConfigError for kinds and features that are not supported.
Tokenizer load_tokenizer(const std::filesystem::path& folder);
class TokenizerFiles;
Tokenizer load_tokenizer(const TokenizerFiles& files);

/// A tokenizer from the text of a `tokenizer.json`; errors name `source`.
Tokenizer parse_tokenizer(std::string_view json, std::string_view source = "tokenizer.json");

/// Whether a tokenizer may be made of a file of this name.
bool is_tokenizer_file(std::string_view name);
/// The files in `folder` that make up its tokenizer, for copying beside a checkpoint.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& folder);

}  // namespace viaduct
