#include "checkpoint/gguf_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "checkpoint/group_fit.h"

namespace viaduct {
namespace {

// Scales of a block at which the largest group scale is this much beyond its range, in turn: FP16
// is coarse among small numbers, and the other groups' scales fall elsewhere.
constexpr int kStarts = 4;
constexpr float kStartStep = 0.015f;
constexpr int kBlockTurns = 2;    // of the groups' integers and the block's scale and minimum
constexpr int kReach = 2;         // of a group's scale around the one before
constexpr int kMinimumTurns = 3;  // of a group's minimum and its codes

/// As FP16.
float stored(double value) {
  constexpr auto kLargest = static_cast<double>(kLargestGgufValue);
  return static_cast<float>(static_cast<float16>(std::clamp(value, -kLargest, kLargest)));
}

/// The multiple of `unit` that is nearest to `value`; 0 of a unit that is 0.
int nearest_multiple(float value, float unit, GgufBlockForm::Range range) {
  if (unit == 0) return 0;
  const float multiple =
      std::clamp(value / unit, static_cast<float>(range.least), static_cast<float>(range.largest));
  return static_cast<int>(std::lround(multiple));
}

using PerGroup = std::array<int, kMostGgufGroups>;

/// The numbers of a block but its codes, which are the nearest ones.
struct Candidate {
  float scale = 0, minimum = 0;  // as they are stored
  PerGroup scales{}, minimums{};
  std::array<GroupSums, kMostGgufGroups> sums{};
  double error = std::numeric_limits<double>::infinity();
};

class BlockSearch {
 public:
  BlockSearch(const GgufBlockForm& form, const float* values)
      : form_(form), size_(form.elements / form.groups) {
    now_.scales.fill(1);
    now_.minimums.fill(1);
    const GroupFit::Offset offset = form.minimum_sign == 0      ? GroupFit::Offset::none
                                    : form.minimums.largest > 0 ? GroupFit::Offset::at_most_zero
                                                                : GroupFit::Offset::any;
    for (int g = 0; g < form.groups; ++g) {
      groups_.emplace_back(values + g * size_, size_, form.codes);
      alone_.push_back(groups_.back().search(offset));
    }
  }

  GgufBlock found() {
    if (form_.scales.largest > 0) {
      start_with_shared_scales();
    } else {
      now_.scale = stored(static_cast<double>(alone_[0].scale));
      now_.minimum = stored(static_cast<double>(alone_[0].offset));
      compare();
    }
    for (int turn = 0; turn < kBlockTurns; ++turn) {
      now_ = best_;
      if (form_.scales.largest > 0) search_integers();
      fit_block();
    }
    return block();
  }

 private:
  static size_t at(int group) { return static_cast<size_t>(group); }
  bool has_minimum() const { return form_.minimum_sign != 0; }

  GroupFit::Line line(const Candidate& of, int scale, int minimum) const {
    return {of.scale * static_cast<float>(scale),
            has_minimum() ? form_.minimum_sign * of.minimum * static_cast<float>(minimum) : 0};
  }

  void keep_better() {
    if (now_.error < best_.error) best_ = now_;
  }

  /// Computes the sums of the present numbers.
  void compare() {
    now_.error = 0;
    for (int g = 0; g < form_.groups; ++g) {
      now_.sums[at(g)] = groups_[at(g)].sums(line(now_, now_.scales[at(g)], now_.minimums[at(g)]));
      now_.error += static_cast<double>(now_.sums[at(g)].error);
    }
    keep_better();
  }

  void start_with_shared_scales() {
    float scale = 0, minimum = 0;
    for (const GroupFit::Line& group : alone_) {
      if (std::fabs(group.scale) > std::fabs(scale)) scale = group.scale;
      minimum = std::max(minimum, -group.offset);
    }
    const auto [least, largest] = form_.scales;
    const auto farthest = static_cast<float>(-least > largest ? least : largest);
    const auto deepest = static_cast<float>(std::max(form_.minimums.largest, 1));
    for (int start = 0; start < kStarts; ++start) {
      const float part = 1 - kStartStep * static_cast<float>(start);
      now_.scale = stored(static_cast<double>(scale / (farthest * part)));
      now_.minimum = stored(static_cast<double>(minimum / (deepest * part)));
      for (int g = 0; g < form_.groups; ++g) {
        now_.scales[at(g)] = nearest_multiple(alone_[at(g)].scale, now_.scale, form_.scales);
        now_.minimums[at(g)] =
            nearest_multiple(-alone_[at(g)].offset, now_.minimum, form_.minimums);
      }
      compare();
    }
  }

  /// Of each group, with the scale and the minimum of the block.
  void search_integers() {
    now_.error = 0;
    for (int g = 0; g < form_.groups; ++g) {
      const int middle = now_.scales[at(g)], minimum = now_.minimums[at(g)];
      const int last = std::min(middle + kReach, form_.scales.largest);
      for (int scale = std::max(middle - kReach, form_.scales.least); scale <= last; ++scale)
        search_minimum(g, scale, minimum);
      now_.error += static_cast<double>(now_.sums[at(g)].error);
    }
    keep_better();
  }

  void search_minimum(int group, int scale, int minimum) {
    for (int turn = 0; turn < kMinimumTurns; ++turn) {
      const GroupFit::Line with = line(now_, scale, minimum);
      const GroupSums sums = groups_[at(group)].sums(with);
      if (sums.error < now_.sums[at(group)].error) {
        now_.sums[at(group)] = sums;
        now_.scales[at(group)] = scale;
        now_.minimums[at(group)] = minimum;
      }
      if (!has_minimum()) return;
      const float offset =
          (groups_[at(group)].sum() - with.scale * sums.codes) / static_cast<float>(size_);
      const int next = nearest_multiple(form_.minimum_sign * offset, now_.minimum, form_.minimums);
      if (next == minimum) return;
      minimum = next;
    }
  }

  /// The scale and the minimum of the block by least squares, with the codes and the groups'
  /// integers as they are: of values as scale × a + minimum × b.
  void fit_block() {
    double aa = 0, ab = 0, bb = 0, va = 0, vb = 0;
    for (int g = 0; g < form_.groups; ++g) {
      const GroupSums& sums = now_.sums[at(g)];
      const double scale = now_.scales[at(g)];
      const double minimum = static_cast<double>(form_.minimum_sign) * now_.minimums[at(g)];
      aa += scale * scale * static_cast<double>(sums.squares);
      ab += scale * minimum * static_cast<double>(sums.codes);
      bb += minimum * minimum * size_;
      va += scale * static_cast<double>(sums.products);
      vb += minimum * static_cast<double>(groups_[at(g)].sum());
    }
    constexpr double kSingular = 1e-9;
    const double determinant = aa * bb - ab * ab;
    if (determinant > kSingular * aa * bb) {
      now_.scale = stored((va * bb - vb * ab) / determinant);
      now_.minimum = stored((vb * aa - va * ab) / determinant);
    } else if (aa > 0) {
      now_.scale = stored((va - ab * static_cast<double>(now_.minimum)) / aa);
    }
    compare();
  }

  GgufBlock block() const {
    GgufBlock block;
    block.scale = static_cast<float16>(best_.scale);
    block.minimum = static_cast<float16>(best_.minimum);
    for (int g = 0; g < form_.groups; ++g) {
      const int scale = best_.scales[at(g)], minimum = best_.minimums[at(g)];
      block.scales[g] = static_cast<int16_t>(scale);
      block.minimums[g] = static_cast<int16_t>(minimum);
      groups_[at(g)].codes(line(best_, scale, minimum), block.codes + g * size_);
    }
    return block;
  }

  const GgufBlockForm& form_;
  const int size_;
  std::vector<GroupFit> groups_;
  std::vector<GroupFit::Line> alone_;
  Candidate now_, best_;
};

}  // namespace

GgufBlock search_gguf_block(const GgufBlockForm& form, std::span<const float> values) {
  return BlockSearch(form, values.data()).found();
}

}  // namespace viaduct
