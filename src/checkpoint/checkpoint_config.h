#pragma once
// Section `checkpoint`: what is saved and when, and what a run starts from.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/strictness.h"
#include "config/field.h"

namespace viaduct {

struct CheckpointConfig {
  std::optional<std::string> save;
  /// `auto`: `save`, if it holds a checkpoint.
  Auto<std::optional<std::string>> load;
  std::optional<std::string> pretrained_checkpoint;
  int64_t save_interval = 500;
  int64_t most_recent_k = -1;
  std::optional<std::string> keep_best;
  bool async_save = false;
  bool save_optim = true, save_rng = true, load_optim = true, load_rng = true;
  std::optional<int64_t> ckpt_step;
  bool exit_on_missing_checkpoint = false;
  bool fallback_to_previous = false;
  bool continue_on_save_failure = false;
  bool fully_parallel_save = true, fully_parallel_load = false;
  Strictness dist_ckpt_strictness = Strictness::raise_all;
  std::vector<std::string> allow_changes;
};

FieldGroup checkpoint_fields(CheckpointConfig& config);

}  // namespace viaduct
