#include "masked_text.h"

#include <unistd.h>

#include <cstdlib>

namespace viaduct::cli {
namespace {

// Of a shortened row.
constexpr size_t kMostLines = 40, kMostCharacters = 2000;

void append_shown(std::string& text, std::string_view piece) {
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      text += "\xef\xbf\xbd";
    } else {
      text += c;
    }
  }
}

}  // namespace

bool shows_colours(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

std::string masked_text(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                        std::span<const uint8_t> mask, bool colours, bool shortened) {
  const char *begin = colours ? "\033[32m" : "[", *end = colours ? "\033[0m" : "]";
  DecodeStream stream(tokenizer);
  std::string text;
  bool learned = false;
  size_t i = 0, measured = 0, lines = 0, characters = 0;
  for (; i < ids.size(); ++i) {
    for (; measured < text.size(); ++measured) {
      lines += text[measured] == '\n' ? 1 : 0;
      characters += (static_cast<unsigned char>(text[measured]) & 0xC0) != 0x80 ? 1 : 0;
    }
    if (shortened && (lines >= kMostLines || characters >= kMostCharacters)) break;
    const bool now = mask[i] != 0;
    if (now != learned) text += now ? begin : end;
    learned = now;
    append_shown(text, stream.push(ids[i]));
  }
  append_shown(text, stream.finish());
  if (learned) text += end;
  if (i < ids.size()) text += " …";
  return text;
}

}  // namespace viaduct::cli
