#include "checkpoint/strict_json.h"

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

}  // namespace viaduct
