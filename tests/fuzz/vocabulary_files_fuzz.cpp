// Any bytes as vocab.json, merges.txt, and the two files that give ids of special tokens: read or
// refused. The first byte of the input chooses the class; the files follow, with a zero byte
// between.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  if (size == 0) return 0;
  constexpr const char* kClasses[] = {"GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer",
                                      "RobertaTokenizer"};
  std::map<std::string, std::string> texts{
      {kTokenizerConfigurationFile,
       std::string(R"({"tokenizer_class": ")") + kClasses[data[0] % std::size(kClasses)] + "\"}"}};
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const char* name : {kVocabularyFile, kMergesFile, "config.json", kGenerationFile}) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    if (end > 0) texts[name] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  try {
    const Tokenizer tokenizer = load_tokenizer(TokenizerFiles("folder", std::move(texts)));
    tokenizer.decode_text(tokenizer.encode(" ab  \u00e9 <s>\n", {.add_special_tokens = true}));
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
