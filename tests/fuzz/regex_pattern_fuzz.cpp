// Any bytes as a pattern of a tokenizer: refused with a message, or its matches lie in the text, in
// order.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/regex.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view pattern(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kText = "ab AB st\u017f \u00df\u4f60 12\r\n\U0001F600 c";
  try {
    const viaduct::Regex regex(pattern);
    viaduct::RegexScratch scratch;
    size_t last = 0;
    regex.for_each_match(kText, scratch, [&](viaduct::Regex::Match match) {
      if (match.begin < last || match.end < match.begin || match.end > kText.size()) std::abort();
      last = match.end;
    });
  } catch (const viaduct::Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
