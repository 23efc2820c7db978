#pragma once
// Element types of token files, with their codes in the Megatron indexed format.

#include <cstdint>
#include <string_view>

namespace viaduct {

enum class TokenType : uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float64 = 6,
  float32 = 7,
  uint16 = 8,
};

constexpr bool is_token_type(uint8_t code) {
  return code >= 1 && code <= 8;
}

/// "uint8", "int32", …: NumPy's names.
std::string_view token_type_name(TokenType type);

constexpr int64_t token_type_bytes(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::float32:
      return 4;
    case TokenType::int64:
    case TokenType::float64:
      return 8;
  }
  return 0;
}

constexpr bool is_float_token(TokenType type) {
  return type == TokenType::float32 || type == TokenType::float64;
}

/// Megatron's choice for a vocabulary: uint16 below 65500 entries, else int32.
constexpr TokenType token_type_for_vocabulary(int64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::uint16 : TokenType::int32;
}

}  // namespace viaduct
