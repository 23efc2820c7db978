#include "support/mutator.h"

#include <algorithm>
#include <array>
#include <utility>

namespace viaduct::fuzz {
namespace {

// Lengths, offsets and counts at which arithmetic fails.
constexpr std::array<uint64_t, 20> kIntegers{0,
                                             1,
                                             2,
                                             7,
                                             8,
                                             127,
                                             128,
                                             255,
                                             256,
                                             0x7fff,
                                             0x8000,
                                             0xffff,
                                             0x10000,
                                             0x7fffffff,
                                             0x80000000,
                                             0xffffffff,
                                             0x100000000,
                                             0x7fffffffffffffff,
                                             0x8000000000000000,
                                             0xffffffffffffffff};
// Strings that often break parsers of text and JSON.
constexpr std::array<const char*, 18> kWords{
    "{",  "}",     "[",   "]",       "\"",      ":",  ",",        "null", "true",
    "-1", "1e999", "0.5", "\\u0000", "\\ud800", "\n", "\xff\xfe", "NaN",  "\xf0\x9f\x98\x80"};

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, size_t max_bytes)
    : corpus_(std::move(corpus)), max_bytes_(max_bytes) {}

size_t Mutator::below(size_t bound) {
  return bound == 0 ? 0 : static_cast<size_t>(random_() % bound);
}

std::string Mutator::input(uint64_t seed, uint64_t iteration) {
  std::seed_seq sequence{seed, seed >> 32, iteration, iteration >> 32};
  random_.seed(sequence);
  std::string text = corpus_[below(corpus_.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) change(text);
  if (text.size() > max_bytes_) text.resize(max_bytes_);
  return text;
}

void Mutator::change(std::string& text) {
  const size_t at = below(text.size());
  const size_t run = std::min(text.size() - at, size_t{1} << below(8));
  switch (below(10)) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(random_());
      break;
    case 2:
      text.resize(at);
      break;
    case 3:
      text.erase(at, run);
      break;
    case 4:
      text.insert(below(text.size() + 1), text.substr(at, run));
      break;
    case 5:
      text.insert(at, run, static_cast<char>(random_()));
      break;
    case 6:
      text.insert(at, kWords[below(kWords.size())]);
      break;
    case 7:
      splice(text);
      break;
    default:
      write_integer(text);
  }
}

void Mutator::splice(std::string& text) {
  const std::string& other = corpus_[below(corpus_.size())];
  const size_t from = below(other.size());
  text = text.substr(0, below(text.size() + 1)) + other.substr(from);
}

void Mutator::write_integer(std::string& text) {
  uint64_t value = kIntegers[below(kIntegers.size())];
  if (below(4) == 0) value = text.size() + below(17) - 8;  // near the size: off by one
  if (below(3) == 0) {
    // In decimal, replacing the digits found from a random position on.
    const size_t begin = text.find_first_of("0123456789", below(text.size()));
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin,
                 std::to_string(below(2) == 0 ? static_cast<int64_t>(value)
                                              : static_cast<int64_t>(value) / 2));
    return;
  }
  const size_t bytes = size_t{1} << below(4);  // little endian
  if (text.size() < bytes) return;
  const size_t at = below(text.size() - bytes + 1);
  for (size_t i = 0; i < bytes; ++i) text[at + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace viaduct::fuzz
