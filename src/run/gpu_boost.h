#pragma once
// The boost slider of a machine's GPUs (dist.vboost): how much of a GPU's power goes to its cores.
// It is a state of the driver, which the system's administrator may move, by nvidia-smi.

#include <string>

#include "comm/dist_config.h"
#include "comm/launcher.h"

namespace viaduct {

struct BoostOutcome {
  bool moved = false;
  std::string text;  // what was run and what it said, in one line
};

/// `nvidia-smi boost-slider --vboost POSITION`, of all GPUs of this machine, and the state that it
/// lists then. Takes at most `seconds` for each of these two calls.
BoostOutcome move_boost_slider(int position, double seconds = 10);

/// Does that where dist.vboost is given, in the first process of a machine; logs the outcome, as a
/// warning where the slider was not moved.
void boost_gpus(const DistConfig& config, const Launch& launch);

}  // namespace viaduct
