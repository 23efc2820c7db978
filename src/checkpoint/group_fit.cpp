#include "checkpoint/group_fit.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace viaduct {
namespace {

// Sums are taken in these lanes on every machine, so that all of them find the same codes.
constexpr int kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

/// Adding and subtracting it rounds numbers below 2^22 to the nearest integer, ties to even.
constexpr float kRoundingShift = 0x1.8p23f;

// The grid: scales at which the values just fill the range of codes and this many codes more. Of
// values with few large ones the best scale cuts these off, so most of it is on that side.
constexpr float kMostCutOff = -1.5f;
constexpr float kMostUnused = 1;
constexpr float kGridStep = 0.5f;
constexpr int kTurns = 3;

/// 0, and so codes of 0, for scales that have no reciprocal in FP32.
float reciprocal(float scale) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  return scale > -kLeast && scale < kLeast ? 0 : 1 / scale;
}

struct NearestCode {
  float inverse, offset, low, high;

  // Vectors are arguments by reference: by value their calls differ between instruction sets.
  [[gnu::always_inline]] void operator()(const Lanes& values, Lanes& codes) const {
    Lanes code = (values - offset) * inverse;
    code = code < low ? low - Lanes{} : code;
    code = code > high ? high - Lanes{} : code;
    codes = (code + kRoundingShift) - kRoundingShift;
  }
};

float sum_of(const Lanes& lanes) {
  using Half = float __attribute__((vector_size(sizeof(Lanes) / 2)));
  Half halves[2];
  std::memcpy(halves, &lanes, sizeof(lanes));
  const Half sum = halves[0] + halves[1];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

}  // namespace

GroupFit::GroupFit(const float* values, int size, GgufBlockForm::Range codes)
    : values_(values),
      size_(size),
      low_(static_cast<float>(codes.least)),
      high_(static_cast<float>(codes.largest)),
      least_(values[0]),
      largest_(values[0]) {
  for (int i = 0; i < size; ++i) {
    sum_ += values[i];
    least_ = std::min(least_, values[i]);
    largest_ = std::max(largest_, values[i]);
  }
}

GroupSums GroupFit::sums(Line line) const {
  const NearestCode nearest{reciprocal(line.scale), line.offset, low_, high_};
  Lanes error{}, codes{}, squares{}, products{};
  for (int i = 0; i < size_; i += kLanes) {
    Lanes value, code;
    std::memcpy(&value, values_ + i, sizeof(value));
    nearest(value, code);
    const Lanes difference = (value - line.offset) - line.scale * code;
    error += difference * difference;
    codes += code;
    squares += code * code;
    products += value * code;
  }
  return {sum_of(error), sum_of(codes), sum_of(squares), sum_of(products)};
}

void GroupFit::codes(Line line, int16_t* to) const {
  const NearestCode nearest{reciprocal(line.scale), line.offset, low_, high_};
  for (int i = 0; i < size_; i += kLanes) {
    Lanes value, code;
    std::memcpy(&value, values_ + i, sizeof(value));
    nearest(value, code);
    for (int j = 0; j < kLanes; ++j) to[i + j] = static_cast<int16_t>(code[j]);
  }
}

GroupFit::Line GroupFit::least_squares(const GroupSums& sums, Offset offset) const {
  const Line through_zero{sums.squares > 0 ? sums.products / sums.squares : 0, 0};
  if (offset == Offset::none) return through_zero;
  const auto count = static_cast<float>(size_);
  const float spread = count * sums.squares - sums.codes * sums.codes;
  Line line;
  if (spread > 0) line.scale = (count * sums.products - sum_ * sums.codes) / spread;
  line.offset = (sum_ - line.scale * sums.codes) / count;
  return offset == Offset::at_most_zero && line.offset > 0 ? through_zero : line;
}

GroupFit::Line GroupFit::search(Offset offset) const {
  Line best;
  float least_error = std::numeric_limits<float>::infinity();
  const auto from = [&](Line line) {
    for (int turn = 0; turn < kTurns; ++turn) {
      const GroupSums found = sums(line);
      if (found.error < least_error) {
        least_error = found.error;
        best = line;
      }
      line = least_squares(found, offset);
    }
  };
  if (offset == Offset::none) {
    // The range of codes is not symmetric: the value with the largest magnitude at either end.
    const float extreme = -least_ > largest_ ? least_ : largest_;
    for (float unused = kMostCutOff; unused < kMostUnused; unused += kGridStep) {
      from({extreme / (low_ - unused), 0});
      from({extreme / (high_ + unused), 0});
    }
    return best;
  }
  const bool negative = offset == Offset::at_most_zero;
  const float bottom = negative ? std::min(least_, 0.0f) : least_;
  if (largest_ == bottom) return {0, bottom};
  for (float unused = kMostCutOff; unused < kMostUnused; unused += kGridStep) {
    const float scale = (largest_ - bottom) / (high_ + unused);
    const float shifted = bottom - unused / 2 * scale;
    from({scale, negative ? std::min(shifted, 0.0f) : shifted});
  }
  return best;
}

}  // namespace viaduct
