#pragma once
// The tokens of a pass of generation on their way to the device.

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "nn/batch.h"

namespace viaduct {

/// Runs of tokens, one after the other; nothing of them is scored.
struct PassTokens {
  std::vector<int32_t> ids, positions;
  std::vector<int64_t> index;       // of each in its sequence, as Batch::token_index
  std::vector<int32_t> offsets{0};  // where runs end; some may be empty
  int64_t longest = 0;              // run

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  /// Appends a token to the run that is open.
  void add(int32_t id, int64_t position);
  void end_run();
};

/// Tokens of filling that make `tokens` divide over `parts` ranks, of which each has one at least.
int64_t filling_of(int64_t tokens, int64_t parts);

/// On the device. The rank has part number `part` of `parts` of the stream's rows.
Batch upload_tokens(Device& device, const PassTokens& tokens, int64_t parts, int64_t part);

}  // namespace viaduct
