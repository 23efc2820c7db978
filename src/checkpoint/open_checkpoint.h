#pragma once
// All ranks of a run open the same checkpoint.

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint_reader.h"
#include "comm/communicator.h"

namespace viaduct {

/// Opens what `open_checkpoint` would, on every rank of `world`; the folder and the options of rank
/// 0 count, and an empty folder opens nothing (null). Each rank looks at its share (OpenShare),
/// also where candidates are read completely, so no rank waits longer than for the slowest share,
/// and the timeout of collectives does not count while one is at work. If any rank cannot, all
/// throw the same IoError.
std::unique_ptr<CheckpointReader> open_on_all(Communicator& world,
                                              const std::filesystem::path& folder,
                                              const OpenCheckpointOptions& options = {});

}  // namespace viaduct
