#pragma once
// A run's checkpoint: weights (masters) and the optimizer's states, in FP32, which holds any of
// their formats exactly, or in FP64 where they are in FP64, and the training state, with
// config.json, config.yaml and the tokenizer files beside them. A run that is saved and loaded
// continues bitwise.

#include <string>
#include <vector>

#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/parameter_io.h"
#include "engine/engine.h"
#include "train/train_state.h"

namespace viaduct {

struct StageOptions {
  bool optimizer = true;  // its states, where the engine has one
  /// Each of the ranks with equal copies saves a share; otherwise the first saves all.
  bool spread_copies = true;
  Staging staging = Staging::copied;
};

/// The runs that `rank` of `ranks`, which hold copies of them, saves.
std::vector<StoredRun> saved_share(const std::vector<StoredRun>& runs, int rank, int ranks,
                                   bool spread_copies);

/// Step, state and tensors of what this rank saves of a checkpoint: tensors that several ranks hold
/// are saved by one of them. With Staging::read_later it is written before the next step.
StagedCheckpoint stage_run(Engine& engine, const TrainState& state,
                           const StageOptions& options = {});

/// Describes staged values that are not finite: the first such tensor, and how many of its values;
/// "" if all are.
std::string first_not_finite(const StagedCheckpoint& staged);

struct RestoreOptions {
  bool optimizer = true;  // its states, too
  Strictness strictness = Strictness::raise_all;
  /// Each of the ranks with equal copies reads a share and sends it to the others; then all of them
  /// must restore at the same time. Otherwise each reads all.
  bool spread_copies = false;
};

struct RestoredRun {
  TrainState state;
  std::vector<std::string> warnings;  // mismatches that `strictness` allows, the same on all ranks
  int64_t bytes = 0;                  // of values that this rank read
};

/// Loads what this rank holds of weights and states; returns the state stored with them. IoError if
/// the checkpoint does not fit the model as `strictness` requires. Missing tensors begin as in a
/// new run.
RestoredRun restore_run(Engine& engine, const CheckpointReader& checkpoint,
                        const RestoreOptions& options = {});

}  // namespace viaduct
