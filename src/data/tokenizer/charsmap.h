#pragma once
// SentencePiece's character map ("precompiled_charsmap"), in a tokenizer.json or a model: a double
// array of bytes that leads from a few characters to what replaces them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tracked_text.h"

namespace viaduct {

class Charsmap {
 public:
  /// The map as a tokenizer.model carries it.
  struct Bytes {
    std::string bytes;
  };

  /// From the map's base64. IoError (naming `source`) if it is malformed.
  Charsmap(std::string_view base64, std::string_view source);
  Charsmap(const Bytes& map, std::string_view source);

  /// Replaces what the map has: short grapheme clusters as a whole, else single characters, as
  /// Hugging Face's tokenizers do. Nothing if nothing changes.
  std::optional<std::string> normalize(std::string_view text) const;
  /// The same as changes of `text`.
  std::optional<std::vector<CharacterChange>> changes(std::string_view text) const;

 private:
  /// Calls `put(part, replacement)` for each part of `text`; no replacement: it stays.
  template <class Put>
  void replace(std::string_view text, const Put& put) const;
  /// What replaces a text: that of its shortest prefix in the map.
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero
};

}  // namespace viaduct
