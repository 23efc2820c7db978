#include "data/split_choice.h"

namespace viaduct {

std::optional<SplitChoice> split_choice(const DatasetConfig& config, Split split) {
  const bool per_split = config.blend_per_split.has_value();
  const auto& entries =
      per_split ? (*config.blend_per_split)[static_cast<size_t>(split)] : config.blend;
  if (!entries) return std::nullopt;
  const auto fractions = per_split ? std::array<double, 2>{0.0, 1.0}
                                   : parse_split(config.split)[static_cast<size_t>(split)];
  if (!fractions) return std::nullopt;
  return SplitChoice{parse_blend(*entries), *fractions};
}

}  // namespace viaduct
