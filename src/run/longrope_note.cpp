#include "run/longrope_note.h"

#include <fmt/format.h>

namespace viaduct {

void note_longrope(const RotarySpec& rotary, std::string_view what, int64_t positions,
                   std::vector<std::string>& notes) {
  if (rotary.scaling != RopeScalingKind::longrope || positions <= rotary.original_max_positions)
    return;
  notes.push_back(fmt::format(
      "rope_scaling longrope: {} {} tokens are longer than original_max_position_embeddings = {}, "
      "so every text uses long_factor, shorter ones too; transformers uses short_factor where no "
      "text of a batch is longer",
      what, positions, rotary.original_max_positions));
}

}  // namespace viaduct
