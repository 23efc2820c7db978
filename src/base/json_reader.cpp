#include "base/json_reader.h"

namespace viaduct {

namespace {

/// The length of the character of UTF-8 at the begin of `text`; 0 if it is cut off or ill-formed
/// (Unicode 15, table 3-7): too long a form, a surrogate, beyond U+10FFFF.
size_t character_bytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto lead = at(0);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes > text.size() || lead > 0xF4) return 0;
  const unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (bytes > 1 && (at(1) < least || at(1) > most)) return 0;
  for (size_t i = 2; i < bytes; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  return bytes;
}

}  // namespace

std::string shown_name(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string shown;
  for (std::string_view rest = name.substr(0, kLongest); !rest.empty();) {
    const size_t bytes = character_bytes(rest);
    const auto byte = static_cast<unsigned char>(rest.front());
    const bool plain = bytes > 0 && byte >= 0x20 && byte != 0x7f;
    if (plain) {
      shown += rest.substr(0, bytes);
    } else if (bytes > 0 || rest.size() > 3 || name.size() <= kLongest) {  // not cut off here
      shown += '?';
    }
    rest.remove_prefix(plain ? bytes : 1);
  }
  if (name.size() > kLongest) shown += "...";
  return shown;
}

std::string shown_json_problem(std::string_view message) {
  // "[json.exception.parse_error.101] parse error at …"
  if (message.starts_with("[json.exception.")) {
    const size_t end = message.find("] ");
    if (end != std::string_view::npos) message.remove_prefix(end + 2);
  }
  return shown_name(message);
}

}  // namespace viaduct
