#pragma once
// Train, validation and test splits of a data set, and how Megatron's split text cuts a file into
// contiguous ranges.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace viaduct {

enum class Split : int { train = 0, valid = 1, test = 2 };
constexpr int kSplitCount = 3;

/// "train", "valid", "test".
std::string_view split_name(Split split);
/// The split of that name ("validation" means "valid"); ConfigError otherwise.
Split parse_split_name(std::string_view name);

/// [first, end) in sequences of an indexed dataset.
struct DocumentRange {
  int64_t first = 0, end = 0;
  int64_t size() const { return end - first; }
  bool operator==(const DocumentRange&) const = default;
};

/// Fractions [begin, end) of a data set per split; empty for a split of weight 0.
using SplitFractions = std::array<std::optional<std::array<double, 2>>, kSplitCount>;

/// Parses weights such as "99,1,0" (missing ones are 0) and normalizes them into consecutive
/// intervals, with Megatron's order of floating-point operations. ConfigError if there are more
/// than three, a malformed one, or all are zero.
SplitFractions parse_split(std::string_view text);

/// The range of a split in a file of `count` sequences: both borders rounded half to even, as
/// Python's `round`.
DocumentRange split_range(const std::array<double, 2>& fractions, int64_t count);

/// Weights divided by their sum; summed in NumPy's order (pairwise with eight partial sums from 8
/// elements on).
std::vector<double> normalize_weights(const std::vector<double>& weights);

}  // namespace viaduct
