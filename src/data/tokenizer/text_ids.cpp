#include "data/tokenizer/text_ids.h"

#include <algorithm>

namespace viaduct {

std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> plain = tokenizer.encode(text);
  EncodeOptions with_special;
  with_special.add_special_tokens = true;
  std::vector<int32_t> ids = tokenizer.encode(text, with_special);
  const auto begin = std::search(ids.begin(), ids.end(), plain.begin(), plain.end());
  if (begin != ids.end()) ids.erase(begin + static_cast<int64_t>(plain.size()), ids.end());
  return ids;
}

std::vector<int32_t> token_text_bytes(const Tokenizer& tokenizer) {
  std::vector<int32_t> bytes(static_cast<size_t>(tokenizer.vocab_size()), 0);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const AddedToken* added = tokenizer.added_tokens().find(id);
    if (added != nullptr && added->special) continue;
    DecodeState inside{.at_start = false};  // the space before a word counts
    std::string text;
    if (tokenizer.decode(id, inside, text))
      bytes[static_cast<size_t>(id)] = static_cast<int32_t>(text.size());
  }
  return bytes;
}

}  // namespace viaduct
