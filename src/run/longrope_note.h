#pragma once
// Which of LongRoPE's lists a run uses, where transformers may use the other one.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/rotary_table.h"

namespace viaduct {

/// Adds "rope_scaling longrope: rows of 80 tokens are longer than …, so every text uses
/// long_factor, …" for a table of so many positions, which `what` ("rows of") have; nothing where
/// short_factor applies or LongRoPE does not stretch the positions.
void note_longrope(const RotarySpec& rotary, std::string_view what, int64_t positions,
                   std::vector<std::string>& notes);

}  // namespace viaduct
