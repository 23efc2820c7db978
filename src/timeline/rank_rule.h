#pragma once
// Which ranks a group has, as a rule instead of a list: groups of a mesh are a few numbers, however
// many ranks they have.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace viaduct {

/// An ascending set of ranks. Groups of a mesh are one *block*: first + i·stride + j·stride' + …
/// with 0 ≤ i < count, 0 ≤ j < count' …, the first digit varying fastest. Any other set is several
/// blocks one after the other. The same set always has the same blocks, so that rules are equal
/// where sets are. A value.
class RankRule {
 public:
  struct Digit {
    int count = 1;
    int stride = 1;
    bool operator==(const Digit&) const = default;
  };
  struct Block {
    int first = 0;
    std::vector<Digit> digits;  // of counts above 1
    int size() const;
    bool operator==(const Block&) const = default;
  };

  RankRule() = default;
  /// Of ranks in ascending order, none twice; CommError otherwise.
  static RankRule of(std::span<const int> ranks);
  /// Ranks 0 … count − 1.
  static RankRule first(int count);

  int size() const;
  /// The rank at `place`, 0 ≤ place < size(); CommError otherwise.
  int member(int place) const;
  /// The place of a rank; −1: it is not a member.
  int place_of(int rank) const;
  const std::vector<Block>& blocks() const { return blocks_; }
  /// "5", "0 + 2·[0, 4)", "1 + 2·[0, 2) + 8·[0, 4)"; blocks are joined by " | ".
  std::string text() const;
  bool operator==(const RankRule&) const = default;

 private:
  std::vector<Block> blocks_;
};

}  // namespace viaduct
