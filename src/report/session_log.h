#pragma once
// Where the sessions of a run began, in SAVE/sessions.jsonl: a line for each session that continues
// a checkpoint, with the settings that differ from those of the checkpoint. metrics.jsonl has no
// such lines: it is the same for a run that was interrupted and for one that was not.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace viaduct {

struct SessionStart {
  int64_t step = 0;                  // of the checkpoint
  std::vector<std::string> changed;  // "optimizer.lr: was 0.001, is 0.0005"
};

/// Adds a session; later ones that the file has (of a run that went on from an earlier step) are
/// dropped. A session at step 0 begins a run, and removes the file.
void add_session(const std::filesystem::path& save, const SessionStart& session);

/// The sessions in the folder of a run, in the order of their steps; empty without a file. Lines
/// that are damaged are left out.
std::vector<SessionStart> read_sessions(const std::filesystem::path& save);

}  // namespace viaduct
