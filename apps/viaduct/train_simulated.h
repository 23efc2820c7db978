#pragma once
// `viaduct train` with dist.device=sim: the steps of a run in virtual time, on a cluster that is
// described. Nothing is computed or read, and only metrics.jsonl, TensorBoard events and
// config.yaml are saved.

#include "run/setup.h"

namespace viaduct::cli {

/// Returns the exit status. ConfigError if checkpoint.save holds checkpoints, which a run that
/// computed something made.
int simulate_training(const RunSetup& setup);

}  // namespace viaduct::cli
