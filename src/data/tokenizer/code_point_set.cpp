#include "data/tokenizer/code_point_set.h"

#include <algorithm>

namespace viaduct {

CodePointSet CodePointSet::range(char32_t first, char32_t last) {
  CodePointSet made;
  made.bounds_ = {first, last + 1};
  return made;
}

CodePointSet CodePointSet::from_bounds(std::span<const uint32_t> bounds) {
  CodePointSet made;
  made.bounds_.assign(bounds.begin(), bounds.end());
  if (made.bounds_.size() % 2 == 1) made.bounds_.push_back(kEnd);
  return made;
}

CodePointSet CodePointSet::from_ranges(std::vector<std::pair<char32_t, char32_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePointSet made;
  for (const auto& [first, last] : ranges) {
    if (!made.bounds_.empty() && first <= made.bounds_.back()) {
      made.bounds_.back() = std::max<char32_t>(made.bounds_.back(), last + 1);
    } else {
      made.bounds_.insert(made.bounds_.end(), {first, static_cast<char32_t>(last + 1)});
    }
  }
  return made;
}

bool CodePointSet::contains(char32_t value) const {
  return (std::upper_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin()) % 2 == 1;
}

CodePointSet CodePointSet::operator~() const {
  CodePointSet made;
  if (bounds_.empty() || bounds_.front() != 0) made.bounds_.push_back(0);
  for (const char32_t bound : bounds_) {
    if (bound != 0 && bound != kEnd) made.bounds_.push_back(bound);
  }
  if (made.bounds_.size() % 2 == 1) made.bounds_.push_back(kEnd);
  return made;
}

CodePointSet CodePointSet::operator|(const CodePointSet& other) const {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  ranges.reserve((bounds_.size() + other.bounds_.size()) / 2);
  for (const auto* bounds : {&bounds_, &other.bounds_}) {
    for (size_t i = 0; i < bounds->size(); i += 2)
      ranges.emplace_back((*bounds)[i], (*bounds)[i + 1] - 1);
  }
  return from_ranges(std::move(ranges));
}

}  // namespace viaduct
