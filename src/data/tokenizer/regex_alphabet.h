#pragma once
// The characters of a text as the few kinds that a pattern can tell apart: texts become one byte a
// character, and every set of the pattern a set of bytes. Any engine that matches bytes then
// follows the tables of unicode_sets.h, whatever Unicode it has of its own.

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/code_point_set.h"

namespace viaduct {

class RegexAlphabet {
 public:
  static constexpr size_t kMaxKinds = 256;
  using Kinds = std::bitset<kMaxKinds>;

  RegexAlphabet() = default;
  /// The kinds of characters that `sets` tell apart. At most kMaxKinds, else `kinds()` is larger
  /// and the alphabet must not be used.
  explicit RegexAlphabet(const std::vector<const CodePointSet*>& sets);

  size_t kinds() const { return kinds_; }
  /// The kinds that make up one of the constructor's sets.
  const Kinds& members(size_t set) const { return members_[set]; }

  /// The kinds of the characters of well-formed UTF-8. True if the text is all ASCII.
  bool spell(std::string_view text, std::vector<uint8_t>& kinds) const;

 private:
  static constexpr int kBlockBits = 7;

  size_t kinds_ = 0;
  std::vector<Kinds> members_;
  std::array<uint8_t, 128> ascii_{};
  std::vector<uint16_t> block_of_;  // by character >> kBlockBits
  std::vector<uint8_t> blocks_;     // a kind for each character of a block
};

}  // namespace viaduct
