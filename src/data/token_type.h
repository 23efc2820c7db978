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

/// Calls `work` with a zero of the C++ type that such elements have, and returns what it returns.
template <class Work>
constexpr auto with_token_type(TokenType type, Work&& work) {
  switch (type) {
    case TokenType::uint8:
      return work(uint8_t{});
    case TokenType::int8:
      return work(int8_t{});
    case TokenType::int16:
      return work(int16_t{});
    case TokenType::int32:
      return work(int32_t{});
    case TokenType::int64:
      return work(int64_t{});
    case TokenType::float32:
      return work(float{});
    case TokenType::uint16:
      return work(uint16_t{});
    case TokenType::float64:
      break;
  }
  return work(double{});
}

constexpr int64_t token_type_bytes(TokenType type) {
  return with_token_type(type, [](auto value) { return static_cast<int64_t>(sizeof value); });
}

constexpr bool is_float_token(TokenType type) {
  return type == TokenType::float32 || type == TokenType::float64;
}

/// Megatron's choice for a vocabulary: uint16 below 65500 entries, else int32.
constexpr TokenType token_type_for_vocabulary(int64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::uint16 : TokenType::int32;
}

}  // namespace viaduct
