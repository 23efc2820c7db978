#pragma once
// From the spelling of tokens to text (Hugging Face's "decoder"), token by token.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/tokenizer/regex.h"
#include "data/tokenizer/token_model.h"

namespace viaduct {

/// Steps of a decoder.
struct DecodeReplacement {
  std::variant<std::string, Regex> pattern;  // a literal, which is not empty, or an expression
  std::string content;
};
struct DecodeSpaceMark {
  std::string mark;          // becomes a space
  bool drops_first = false;  // those of the first token are left out
};
struct DecodeStrip {
  std::string character;
  size_t begin = 0, end = 0;  // at most as many of it are left out
};
enum class DecodeSimple {
  byte_fallback,  // <0x41> is a byte; bytes in a row that are no text become U+FFFD each
  byte_letters,   // spellings in the byte alphabet become bytes; the parts are one text after it
  fuse,           // the parts are one text
};
using DecodeStep = std::variant<DecodeReplacement, DecodeSpaceMark, DecodeStrip, DecodeSimple>;

class TextDecoder {
 public:
  /// Joins tokens with spaces until a step is added.
  TextDecoder() = default;
  /// ConfigError (naming `source`) for steps in an order that cannot be decoded token by token.
  TextDecoder(std::vector<DecodeStep> steps, std::string_view source);

  bool joins_with_spaces() const { return joined_with_spaces_; }

  /// Appends what a token adds. `exact`: bytes are kept as they are, also where they are no text,
  /// and `verbatim` spellings (those of added tokens) stay as they are in the byte alphabet.
  void push(std::string token, bool exact, bool verbatim, DecodeState& state, RegexScratch& scratch,
            std::string& out) const;
  /// Appends what the state held back.
  void finish(DecodeState& state, RegexScratch& scratch, std::string& out) const;

 private:
  struct Call;

  std::vector<DecodeStep> steps_;
  bool joined_with_spaces_ = true;
};

}  // namespace viaduct
