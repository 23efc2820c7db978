// Any bytes as the files beside a tokenizer.json: read or refused. The input is
// tokenizer_config.json, special_tokens_map.json and added_tokens.json, with a zero byte between.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  std::map<std::string, std::string> texts{
      {kTokenizerFile, R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
                           "merges": ["a b"]}, "pre_tokenizer": {"type": "ByteLevel",
                           "add_prefix_space": true, "trim_offsets": true}})"}};
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {kTokenizerConfigurationFile, kSpecialTokensFile, kAddedTokensFile}) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    if (end > 0) texts[name] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  try {
    const Tokenizer tokenizer = load_tokenizer(TokenizerFiles("folder", std::move(texts)));
    tokenizer.decode_text(tokenizer.encode("ab <e> ab", {.add_special_tokens = true}));
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
