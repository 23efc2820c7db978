#include "base/terminal_text.h"

namespace viaduct {

std::string terminal_text(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      shown += "\uFFFD";
      ++i;
    } else if (byte == '\r') {
      continue;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      shown += '^';
      shown += static_cast<char>(byte ^ 0x40);
    } else {
      shown += static_cast<char>(byte);
    }
  }
  return shown;
}

}  // namespace viaduct
