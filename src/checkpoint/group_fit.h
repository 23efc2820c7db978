#pragma once
// A group of weights as scale × code + offset, where codes are small integers.

#include <cstdint>

#include "tensor/gguf_blocks.h"

namespace viaduct {

/// What least squares need of a group's codes.
struct GroupSums {
  float error = 0;     // Σ (value − scale × code − offset)²
  float codes = 0;     // Σ code
  float squares = 0;   // Σ code²
  float products = 0;  // Σ value × code
};

class GroupFit {
 public:
  enum class Offset { none, at_most_zero, any };
  struct Line {
    float scale = 0, offset = 0;
  };

  /// `size` finite values, a multiple of 8, which are not copied, and the range of codes.
  GroupFit(const float* values, int size, GgufBlockForm::Range codes);

  /// The sum of the values.
  float sum() const { return sum_; }
  /// The sums of the codes that are nearest to the values.
  GroupSums sums(Line line) const;
  /// These codes.
  void codes(Line line, int16_t* to) const;
  /// A scale and an offset with a small error, neither rounded: from a grid of scales, nearest
  /// codes and the least-squares line of codes in turn.
  Line search(Offset offset) const;

 private:
  Line least_squares(const GroupSums& sums, Offset offset) const;

  const float* values_;
  int size_;
  float low_, high_;  // codes
  float sum_ = 0, least_ = 0, largest_ = 0;
};

}  // namespace viaduct
