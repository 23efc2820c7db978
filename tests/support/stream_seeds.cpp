#include "support/stream_seeds.h"

#include <charconv>
#include <cstdlib>
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

}  // namespace viaduct::test
