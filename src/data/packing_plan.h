#pragma once
// Which conversations make the rows of an epoch: a pure function of their lengths, the settings,
// the seed and the number of the epoch.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace viaduct {

enum class PackingAlgorithm {
  none,                  ///< each conversation is a row
  first_fit_decreasing,  ///< the longest first, each into the first row with room for it
  first_fit_shuffle,     ///< the same in random order
  sequential,            ///< in random order; a row ends where the next one does not fit
};

constexpr auto choice_names(PackingAlgorithm) {
  return std::to_array<std::string_view>(
      {"none", "first_fit_decreasing", "first_fit_shuffle", "sequential"});
}

struct PackingSettings {
  PackingAlgorithm algorithm = PackingAlgorithm::none;
  int64_t row_tokens = 0;
  /// Conversations take a multiple of this many places; it divides `row_tokens`.
  int64_t multiple = 1;
  /// `sequential`: each row is filled, and conversations are cut at its end. Otherwise only
  /// conversations longer than a row are cut, into whole rows and a rest.
  bool split = false;

  /// Places that so many tokens take in a row.
  int64_t places(int64_t tokens) const { return (tokens + multiple - 1) / multiple * multiple; }
};

/// The rows of an epoch in order of reading.
struct EpochRows {
  std::vector<int32_t> conversations;  ///< row after row, by their place among the lengths
  std::vector<int32_t> offsets;        ///< with `split`: the first token of each; else empty
  std::vector<int64_t> row_ends;       ///< of each row: how many of them up to its end
};

/// A part of a conversation that begins at `offset` ends with the conversation, or where the row is
/// full. Empty conversations are in no row. Takes O(n log n) time and O(n) memory, some 40 bytes a
/// conversation. ShapeError if a conversation is longer than a row and `split` is false.
EpochRows plan_epoch(std::span<const int32_t> lengths, const PackingSettings& settings,
                     uint32_t seed, int64_t epoch);

}  // namespace viaduct
