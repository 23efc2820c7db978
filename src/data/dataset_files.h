#pragma once
// Whether the files of the configured data sets exist, before any rank opens one.

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_config.h"

namespace viaduct {

/// ConfigError with a line for each prefix without PREFIX.idx or PREFIX.bin (what is there instead,
/// or the nearest name), and for each that has lost its mask (score_mask.h). `where`: the option or
/// field that names them.
void check_dataset_files(const std::vector<std::string>& prefixes, std::string_view where);

/// The same for the data sets of a configuration. Mock data have no files.
void check_dataset_files(const DatasetConfig& config);

}  // namespace viaduct
