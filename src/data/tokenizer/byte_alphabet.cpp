#include "data/tokenizer/byte_alphabet.h"

#include <array>

#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kLetters = 256 + 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kLetters> byte{};  // -1: no byte
};

constexpr Alphabet make_alphabet() {
  Alphabet made;
  for (auto& byte : made.byte) byte = -1;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    made.character[byte] = character;
    made.byte[character] = static_cast<int16_t>(byte);
  }
  return made;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_character(uint8_t byte) {
  return kAlphabet.character[byte];
}

std::string spell_bytes(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(spelled, byte_character(static_cast<uint8_t>(byte)));
  return spelled;
}

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  std::string bytes;
  while (!spelled.empty()) {
    const CodePoint next = first_code_point(spelled);
    if (next.value >= kLetters || kAlphabet.byte[next.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[next.value]));
    spelled.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace viaduct
