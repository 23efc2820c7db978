#pragma once
// Checks on resumption from a checkpoint that the run is still the same.

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/parameter_io.h"
#include "data/dataset_fingerprint.h"
#include "run/setup.h"

namespace viaduct {

using SameOrder = FunctionRef<bool(int64_t samples, int64_t global_batch_size)>;

/// Name of the checkpoint's file of data fingerprints (dataset_fingerprint.h).
inline constexpr const char* kDataFile = "data.json";

/// Compares settings, data and tokenizer with those that the checkpoint was saved under, by the
/// rules of resume_rules.h. ConfigError with all changes that are refused and not in
/// checkpoint.allow_changes; the others that are not free are warnings. Settings of adapters are
/// compared by what they mean (same_adapters.h). Those that a checkpoint lacks (of an earlier
/// version, or converted) are not compared, nor are those that this version does not know, which a
/// warning says. Called on rank 0.
/// `same_order(samples, global_batch_size)`: whether a run of that many samples in such batches
/// reads rows in the same order. `rows`: that this run reads, in all.
/// `states`: the state of the optimizer that is read with the weights.
/// Returns all settings that differ, those that are free too, as "NAME: was A, is B"; not those
/// that say where and how a run is executed and logged.
std::vector<std::string> check_resume(const RunSetup& setup,
                                      const std::vector<DatasetFingerprint>& data,
                                      const CheckpointReader& checkpoint, SameOrder same_order,
                                      int64_t rows, const std::vector<TensorKind>& states = {});

}  // namespace viaduct
