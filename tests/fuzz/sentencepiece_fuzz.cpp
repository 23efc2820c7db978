// Any bytes as a SentencePiece model: read or refused. The first byte chooses the class.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  if (size == 0) return 0;
  constexpr const char* kClasses[] = {"PreTrainedTokenizerFast", "LlamaTokenizer",
                                      "GemmaTokenizer",          "T5Tokenizer",
                                      "AlbertTokenizer",         "XLMRobertaTokenizer"};
  const TokenizerFiles files(
      "folder",
      {{"tokenizer.model", std::string(reinterpret_cast<const char*>(data) + 1, size - 1)},
       {"tokenizer_config.json", std::string(R"({"tokenizer_class": ")") +
                                     kClasses[data[0] % std::size(kClasses)] + "\"}"}});
  try {
    const Tokenizer tokenizer = load_tokenizer(files);
    tokenizer.decode_text(tokenizer.encode(" ab  \u00e9 <s>\n", {.add_special_tokens = true}));
  } catch (const Error&) {
    // Refused with a message, as expected.
  }
  return 0;
}
