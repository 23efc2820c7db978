// Any bytes as the files beside a tokenizer.json: read or refused. The input is
// tokenizer_config.json, special_tokens_map.json and added_tokens.json, with a zero byte between.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  static const test::TemporaryFolder kFolder;
  static const bool kWritten = [] {
    write_file_atomically(kFolder / "tokenizer.json",
                          R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
                              "merges": ["a b"]}, "pre_tokenizer": {"type": "ByteLevel",
                              "add_prefix_space": true, "trim_offsets": true}})");
    return true;
  }();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    std::filesystem::remove(kFolder / name);
    if (end > 0) write_file_atomically(kFolder / name, std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  try {
    const Tokenizer tokenizer = load_tokenizer(kFolder.path());
    tokenizer.decode_text(tokenizer.encode("ab <e> ab", {.add_special_tokens = kWritten}));
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
