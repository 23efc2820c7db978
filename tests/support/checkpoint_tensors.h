#pragma once
// The tensors of a checkpoint, and those of a run that has loaded it, under the same names.

#include <filesystem>
#include <map>
#include <string>

#include "comm/communicator.h"
#include "engine/engine.h"

namespace viaduct::test {

/// The logical tensors of a save folder's latest checkpoint: bytes by name.
std::map<std::string, std::string> saved_tensors(const std::filesystem::path& folder);

/// What the ranks of a run hold together after loading, under the names of a checkpoint; on rank 0.
std::map<std::string, std::string> held_tensors(Engine& engine, Communicator& world);

}  // namespace viaduct::test
