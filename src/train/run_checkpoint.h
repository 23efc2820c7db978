#pragma once
// A run's checkpoint: weights (masters in FP32), AdamW's moments and the training state, with
// config.json, config.yaml and the tokenizer files beside them. What is saved and loaded back
// continues bitwise.

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "train/engine.h"
#include "train/train_state.h"

namespace viaduct {

/// Names of the moments of a logical tensor.
inline constexpr const char* kFirstMoment = "optimizer.exp_avg/";
inline constexpr const char* kSecondMoment = "optimizer.exp_avg_sq/";

/// What this rank saves of a checkpoint, in host memory: of what several ranks hold, one of them
/// saves it; moments with `with_optimizer`, where the engine has any. `files`: name → content of
/// the further files.
StagedCheckpoint stage_run(Engine& engine, const TrainState& state,
                           std::map<std::string, std::string> files,
                           const std::filesystem::path& save, int64_t keep_last,
                           bool with_optimizer);

/// Says what of the staged values is not finite: the first such tensor, and how many of its values;
/// "" if all are.
std::string first_not_finite(const StagedCheckpoint& staged);

/// Loads what this rank holds of weights and, with `load_optimizer`, moments; returns the state
/// stored with them. IoError if the checkpoint does not fit the model or lacks moments that are
/// asked for.
TrainState restore_run(Engine& engine, const CheckpointReader& checkpoint, bool load_optimizer);

}  // namespace viaduct
