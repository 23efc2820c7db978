#include "base/json_reader.h"

namespace viaduct {

std::string shown_name(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string shown;
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? '?' : c;
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
