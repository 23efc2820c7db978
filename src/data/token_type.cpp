#include "data/token_type.h"

namespace viaduct {

std::string_view token_type_name(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return "uint8";
    case TokenType::int8:
      return "int8";
    case TokenType::int16:
      return "int16";
    case TokenType::int32:
      return "int32";
    case TokenType::int64:
      return "int64";
    case TokenType::float64:
      return "float64";
    case TokenType::float32:
      return "float32";
    case TokenType::uint16:
      return "uint16";
  }
  return "unknown";
}

}  // namespace viaduct
