#include "support/stream_seeds.h"

#include <charconv>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>

namespace viaduct::test {

uint64_t stream_seeds(uint64_t usual) {
  const char* value = std::getenv("VIADUCT_STREAM_SEEDS");
  if (value == nullptr) return usual;
  const std::string text = value;
  uint64_t seeds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seeds);
  if (error != std::errc() || end != text.data() + text.size() || seeds < 1 || seeds > 10'000)
    throw std::invalid_argument("VIADUCT_STREAM_SEEDS: expected a number from 1 to 10000, found '" +
                                text + "'");
  return seeds;
}

std::vector<uint64_t> case_seeds(std::string_view name, uint64_t usual) {
  const uint64_t count = stream_seeds(usual);
  uint64_t first = 1;
  if (std::getenv("VIADUCT_STREAM_SEEDS") == nullptr) {
    // Not std::hash, which differs between libraries.
    for (const char letter : name) first = (first * 31 + static_cast<unsigned char>(letter)) % 1009;
    ++first;
  }
  std::vector<uint64_t> seeds(count);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

}  // namespace viaduct::test
