#pragma once
// Which data sets a split of the configuration has, and which part of each.

#include <array>
#include <optional>

#include "data/dataset_config.h"
#include "data/split.h"

namespace viaduct {

struct SplitChoice {
  Blend blend;
  std::array<double, 2> fractions;  // of each data set
};

/// Nothing if the settings give the split no data. ConfigError for a malformed blend or split.
std::optional<SplitChoice> split_choice(const DatasetConfig& config, Split split);

}  // namespace viaduct
