#include "data/tokenizer/vocabulary_hash.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace viaduct {

uint64_t vocabulary_hash(const Tokenizer& tokenizer, int64_t ids) {
  std::string spelled;
  for (int64_t id = 0; id < ids; ++id) {
    const auto token = tokenizer.token(static_cast<int32_t>(id));
    spelled += token ? fmt::format("{}:{}", token->size(), *token) : std::string("-");
  }
  return hash64(spelled);
}

}  // namespace viaduct
