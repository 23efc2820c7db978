// Any bytes as a configuration file: a value or a ConfigError. Writing and reading does not change
// a value.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/value.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  viaduct::Value value;
  try {
    value = viaduct::parse_yaml({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  } catch (const viaduct::ConfigError&) {
    return 0;
  }
  const std::string text = viaduct::to_flow_yaml(value);
  if (text.size() > viaduct::kMaxYamlBytes)
    return 0;  // escapes made it longer than the reader's limit
  const viaduct::Value again = viaduct::parse_yaml(text, "again");
  if (!viaduct::same_value(value, again)) std::abort();
  return 0;
}
