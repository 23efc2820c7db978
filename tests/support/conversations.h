#pragma once
// Small data sets of conversations with a mask, as `viaduct data chat` writes them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace viaduct::test {

/// A conversation: tokens, and 1 where one is scored.
struct MaskedTokens {
  std::vector<int32_t> tokens, mask;
};

/// Of these lengths: tokens below `vocabulary`, and a mask that changes every few tokens; both
/// differ from one conversation to the next.
std::vector<MaskedTokens> conversations_of(const std::vector<int64_t>& lengths,
                                           int32_t vocabulary = 64);

/// `count` lengths from `shortest` to `longest`.
std::vector<int64_t> random_lengths(int64_t count, int64_t shortest, int64_t longest,
                                    unsigned seed = 1);

/// Writes PREFIX.bin/.idx and PREFIX.mask.bin/.idx, and returns the prefix.
std::string write_conversations(const std::filesystem::path& prefix,
                                const std::vector<MaskedTokens>& conversations);

}  // namespace viaduct::test
