#pragma once
// What differs between kinds of tokenizers: how text without added tokens becomes ids, and ids
// bytes. `Tokenizer` (tokenizer.h) adds what all kinds share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/token_places.h"
#include "data/tokenizer/tracked_text.h"

namespace viaduct {

/// Position of a decoder in the text, and what it holds back until more tokens are known
/// (text_decoder.h).
struct DecodeState {
  bool at_start = true;    // of the text
  std::string bytes = {};  // tokens of single bytes that may make up characters
  std::string end = {};    // what may be stripped at the end of the text
  size_t stripped = 0;     // characters at the begin of the text
};

/// Bytes of a text without a token in the vocabulary. Like Hugging Face's tokenizers, a model emits
/// its unknown token for them, or nothing if it has none.
struct UnknownBytes {
  int64_t count = 0;
  uint8_t first = 0;  // the value of the first one, if there is one

  void add(const UnknownBytes& more) {
    if (count == 0) first = more.first;
    count += more.count;
  }
};

/// Immutable after construction, shared by threads.
class TokenModel {
 public:
  /// State of encoding between calls. One per thread.
  class Scratch {
   public:
    virtual ~Scratch() = default;
    UnknownBytes unknown;  // of the text encoded since the owner reset it
    bool at_start = true;  // the next text to encode begins that of the owner
    // The next text goes on after bytes that are no text: nothing is put before it.
    bool in_middle = false;
  };

  TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;

  /// For people: "byte-level BPE", "Unigram".
  virtual std::string_view kind() const = 0;
  /// Whether it merges pairs.
  virtual bool is_bpe() const = 0;
  virtual std::unique_ptr<Scratch> make_scratch() const = 0;

  /// The normalized text, or nothing where it equals `text` (well-formed UTF-8).
  virtual std::optional<std::string> normalize(std::string_view text, Scratch& scratch) const = 0;
  /// Appends the ids of normalized text.
  virtual void encode(std::string_view normalized, Scratch& scratch,
                      std::vector<int32_t>& ids) const = 0;
  /// Whether places can be told: the next three can be called.
  virtual bool tells_places() const { return false; }
  /// Whether the ids depend on the places of a text that `normalize` changed, or did not change.
  virtual bool needs_places(bool) const { return false; }
  /// Normalizes a text with the places of its bytes.
  virtual void normalize_tracked(TrackedText&, Scratch&) const {}
  /// As `encode` of its text; also appends the places of the tokens, unless `places` is null.
  virtual void encode_tracked(const TrackedView&, Scratch&, std::vector<int32_t>&,
                              TokenPlaces*) const {}
  /// Appends the ids of bytes that are not text. False if the model encodes only text.
  virtual bool encode_bytes(std::string_view, Scratch&, std::vector<int32_t>&) const {
    return false;
  }
  /// The token that stands for bytes without one; none: they are left out.
  virtual std::optional<int32_t> unknown_token() const { return std::nullopt; }
  /// Appends the bytes of a token of the model. False if `id` is not a token.
  virtual bool decode(int32_t id, DecodeState& state, std::string& bytes) const = 0;

  /// The largest id + 1.
  virtual int32_t size() const = 0;
  /// The number of tokens.
  virtual int32_t token_count() const { return size(); }
  /// The id of a token as the vocabulary spells it.
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  /// The spelling of a token.
  virtual std::optional<std::string> token(int32_t id) const = 0;
};

}  // namespace viaduct
