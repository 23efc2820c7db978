#pragma once
// What bounds the length of a conversation beside its row.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace viaduct {

struct ConversationLimits {
  /// Most tokens of a conversation, where that is fewer than a row has.
  std::optional<int64_t> longest = {};
  /// Positions of the model; none: not known here.
  std::optional<int64_t> positions = {};
  /// Rows of the run's layout are a multiple of this.
  int64_t row_multiple = 1;
  /// What gave rows their length, as messages name it with a value after it ("--sequence-length ",
  /// "model.seq_length="); "": the fields of section dataset.
  std::string length_given_by = {};
  /// Lengths that were given besides and have to grow with the rows, by the names of their
  /// settings.
  std::vector<std::pair<std::string, int64_t>> also_given = {};
};

}  // namespace viaduct
