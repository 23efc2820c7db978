#pragma once
// A run goes on from a checkpoint: is it still the same run?

#include <cstdint>
#include <string>

#include "base/function_ref.h"
#include "checkpoint/checkpoint_reader.h"
#include "data/dataset_fingerprint.h"
#include "train/setup.h"

namespace viaduct {

/// Name of the file of a checkpoint that remembers the data: dataset_fingerprint.h.
inline constexpr const char* kDataFile = "data.json";

/// Compares settings, data and tokenizer with those that the checkpoint was saved under, by the
/// rules of resume_rules.h. ConfigError with all changes that are refused and not in
/// checkpoint.allow_changes; the others that are not free are warnings. What a checkpoint does not
/// say (of an earlier version, or converted) is not compared. Of rank 0. `same_order(samples)`: do
/// rows come in the order in which a run of so many samples reads them?
void check_resume(const RunSetup& setup, const std::vector<DatasetFingerprint>& data,
                  const CheckpointReader& checkpoint, FunctionRef<bool(int64_t)> same_order);

}  // namespace viaduct
