#include "data/tokenizer/vocabulary_hash.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace viaduct {

std::vector<uint64_t> vocabulary_hashes(const Tokenizer& tokenizer, int64_t ids) {
  std::vector<uint64_t> hashes{0};
  for (int64_t id = 0; id < ids; ++id) {
    const auto token = tokenizer.token(static_cast<int32_t>(id));
    hashes.push_back(hash64(fmt::format("{} {}", hashes.back(), token ? "+" + *token : "-")));
  }
  return hashes;
}

}  // namespace viaduct
