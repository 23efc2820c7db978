// Any bytes as a tokenizer.json: read or refused; a tokenizer that is read encodes and decodes a
// text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const viaduct::Tokenizer tokenizer = viaduct::parse_tokenizer(json);
    const auto ids =
        tokenizer.encode("abc a  <e> cab\xff 12\n\xC3\xA9", {.add_special_tokens = true});
    tokenizer.decode(ids);
  } catch (const viaduct::Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
