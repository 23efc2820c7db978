#include "timeline/rank_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

/// How often the first `width` of `ranks` repeat, each time `stride` higher than before.
size_t repeats(std::span<const int> ranks, size_t width, int stride) {
  size_t count = 1;
  while ((count + 1) * width <= ranks.size()) {
    const int step = static_cast<int>(count) * stride;
    for (size_t i = 0; i < width; ++i)
      if (ranks[count * width + i] != ranks[i] + step) return count;
    ++count;
  }
  return count;
}

/// The widest digits that `ranks` begin with.
RankRule::Block first_block(std::span<const int> ranks) {
  RankRule::Block block{ranks.front(), {}};
  for (size_t width = 1; width < ranks.size();) {
    const int stride = ranks[width] - ranks.front();
    const size_t count = repeats(ranks, width, stride);
    if (count == 1) break;
    block.digits.push_back({static_cast<int>(count), stride});
    width *= count;
  }
  return block;
}

}  // namespace

int RankRule::Block::size() const {
  int size = 1;
  for (const Digit& digit : digits) size *= digit.count;
  return size;
}

RankRule RankRule::of(std::span<const int> ranks) {
  const bool ascend = std::adjacent_find(ranks.begin(), ranks.end(),
                                         [](int a, int b) { return a >= b; }) == ranks.end();
  VIADUCT_CHECK(CommError, ascend, "members of a group: expected ascending ranks without repeats");
  RankRule rule;
  while (!ranks.empty()) {
    rule.blocks_.push_back(first_block(ranks));
    ranks = ranks.subspan(static_cast<size_t>(rule.blocks_.back().size()));
  }
  return rule;
}

RankRule RankRule::first(int count) {
  RankRule rule;
  rule.blocks_.push_back({0, {}});
  if (count > 1) rule.blocks_.back().digits.push_back({count, 1});
  return rule;
}

int RankRule::size() const {
  int size = 0;
  for (const Block& block : blocks_) size += block.size();
  return size;
}

int RankRule::member(int place) const {
  VIADUCT_CHECK(CommError, place >= 0 && place < size(), "members of a group: place {} of {}",
                place, size());
  auto block = blocks_.begin();
  for (; place >= block->size(); ++block) place -= block->size();
  int rank = block->first;
  for (const Digit& digit : block->digits) {
    rank += place % digit.count * digit.stride;
    place /= digit.count;
  }
  return rank;
}

int RankRule::place_of(int rank) const {
  // Members are in ascending order.
  int low = 0, high = size();
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (member(middle) < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < size() && member(low) == rank ? low : -1;
}

std::string RankRule::text() const {
  std::string text;
  for (const Block& block : blocks_) {
    text += (text.empty() ? "" : " | ") + std::to_string(block.first);
    for (const Digit& digit : block.digits)
      text += fmt::format(" + {}·[0, {})", digit.stride, digit.count);
  }
  return text;
}

}  // namespace viaduct
