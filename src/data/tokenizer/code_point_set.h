#pragma once
// Sets of characters, as the classes of regular expressions need them.

#include <cstdint>
#include <span>
#include <vector>

namespace viaduct {

/// Sorted, disjoint, non-adjacent ranges of code points up to
/// U+10FFFF.
class CodePointSet {
 public:
  static constexpr char32_t kEnd = 0x110000;

  CodePointSet() = default;
  CodePointSet(char32_t only) : bounds_{only, only + 1} {}  // NOLINT: a character is a set
  /// The characters `first` to `last`, both included.
  static CodePointSet range(char32_t first, char32_t last);
  /// Alternating begins and ends (one past the last), ascending.
  static CodePointSet from_bounds(std::span<const uint32_t> bounds);
  /// Ranges in any order, which may overlap: pairs of first and last.
  static CodePointSet from_ranges(std::vector<std::pair<char32_t, char32_t>> ranges);
  static CodePointSet all() { return range(0, kEnd - 1); }

  bool empty() const { return bounds_.empty(); }
  bool contains(char32_t value) const;
  /// Alternating begins and ends.
  const std::vector<char32_t>& bounds() const { return bounds_; }

  CodePointSet operator~() const;
  CodePointSet operator|(const CodePointSet& other) const;
  CodePointSet operator&(const CodePointSet& other) const { return ~(~*this | ~other); }
  CodePointSet& operator|=(const CodePointSet& other) { return *this = *this | other; }
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<char32_t> bounds_;
};

}  // namespace viaduct
