#pragma once
// Whether the files of the configured data sets exist, before any rank opens one.

#include "data/dataset_config.h"

namespace viaduct {

/// ConfigError with a line for each prefix without PREFIX.idx or PREFIX.bin: what is there instead,
/// or the nearest name. Mock data have no files.
void check_dataset_files(const DatasetConfig& config);

}  // namespace viaduct
