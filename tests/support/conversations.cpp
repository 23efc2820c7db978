#include "support/conversations.h"

#include <random>

#include "data/indexed_dataset_writer.h"

namespace viaduct::test {

std::vector<MaskedTokens> conversations_of(const std::vector<int64_t>& lengths,
                                           int32_t vocabulary) {
  std::vector<MaskedTokens> all;
  for (size_t c = 0; c < lengths.size(); ++c) {
    std::mt19937 random(static_cast<unsigned>(c + 1));
    MaskedTokens one;
    int32_t scored = 0;
    for (int64_t t = 0; t < lengths[c]; ++t) {
      one.tokens.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      if (random() % 4 == 0) scored = 1 - scored;
      one.mask.push_back(scored);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<int64_t> random_lengths(int64_t count, int64_t shortest, int64_t longest,
                                    unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(shortest + static_cast<int64_t>(random()) % (longest - shortest + 1));
  return lengths;
}

std::string write_conversations(const std::filesystem::path& prefix,
                                const std::vector<MaskedTokens>& conversations) {
  IndexedDatasetWriter tokens(prefix, TokenType::uint16),
      mask(prefix.string() + ".mask", TokenType::uint8);
  for (const MaskedTokens& one : conversations) {
    tokens.add_document(one.tokens);
    mask.add_document(one.mask);
  }
  tokens.finish();
  mask.finish();
  return prefix.string();
}

}  // namespace viaduct::test
