#pragma once
// All ranks of a run open the same checkpoint.

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint_reader.h"
#include "comm/communicator.h"

namespace viaduct {

/// Does `open_checkpoint` on every rank of `world`, with the folder and options of rank 0; an empty
/// folder opens nothing (null). Each rank checks its share (OpenShare), also if candidates are read
/// completely, so no rank waits longer than for the slowest share; the timeout of collectives does
/// not apply meanwhile. If any rank fails, all throw the same IoError.
std::unique_ptr<CheckpointReader> open_on_all(Communicator& world,
                                              const std::filesystem::path& folder,
                                              const OpenCheckpointOptions& options = {});

}  // namespace viaduct
