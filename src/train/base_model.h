#pragma once
// The frozen model under a run's adapters, as its checkpoints name it: by path and content.

#include <string>

#include "checkpoint/checkpoint_reader.h"
#include "run/setup.h"

namespace viaduct {

/// Name of the file of a checkpoint that says so.
inline constexpr const char* kBaseFile = "base.json";

/// The text of that file: reads every byte of the base's weights. Of random weights it names the
/// seed.
std::string base_text(const RunSetup& setup);

/// ConfigError unless `checkpoint` is one of a run with adapters on the base of `now`; also if only
/// one of both has adapters, or the folder of peft.adapter says another rank or scale than the
/// checkpoint's.
void check_base(const CheckpointReader& checkpoint, const RunSetup& setup, const std::string& now);

}  // namespace viaduct
