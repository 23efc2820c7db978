#pragma once
// The folder that a run saves into: SAVE/step_00000010/ … and SAVE/latest, which names the newest
// complete step; SAVE/best names the best one where the run compares them (checkpoint.keep_best). A
// step gets its name only when it is complete; until then it is called step_00000010.tmp-new. One
// run at a time writes into a save folder: run_lock.h.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

class OldSteps;

/// "step_00000010".
std::string step_folder_name(int64_t step);
/// The step of such a name; nothing for any other name.
std::optional<int64_t> parse_step_folder_name(std::string_view name);

/// Steps with a folder, ascending; IoError if `save` cannot be listed.
std::vector<int64_t> saved_steps(const std::filesystem::path& save);

/// "step_00000010 step_00000020", or "none", for messages.
std::string names_of_steps(const std::filesystem::path& save);

/// True if SAVE/latest exists: some checkpoint was completed.
bool has_latest(const std::filesystem::path& save);
/// The step that SAVE/latest names; IoError if it is missing, names nothing, or its folder is
/// missing (the message lists the existing steps).
int64_t latest_step(const std::filesystem::path& save);
void write_latest(const std::filesystem::path& save, int64_t step);

/// The step that SAVE/best names; nothing without the file, if it names nothing, or if the step's
/// folder is missing.
std::optional<int64_t> best_step(const std::filesystem::path& save);
void write_best(const std::filesystem::path& save, int64_t step);
/// Removes SAVE/best, if it is there.
void remove_best(const std::filesystem::path& save);

/// Makes the complete folder `temporary` the folder of `step`, atomically even if that exists.
/// Returns the hidden folder of the old one, if any, to be removed.
std::vector<std::filesystem::path> publish_step(const std::filesystem::path& temporary,
                                                const std::filesystem::path& save, int64_t step);

struct HiddenSteps {
  std::vector<std::filesystem::path> folders;  // to be removed
  std::vector<std::string> stuck;              // why others stay, one text each
};
/// Keeps the newest `keep_last` good steps up to the latest one and hides those before them (0
/// keeps all): renames each, so that a partly removed folder never has the name of a step. A step
/// that cannot be opened (a damaged index, a file missing or of another size) does not count; one
/// without an index is not ours and stays, as does one that cannot be renamed, and the best step.
/// Steps after the latest (of a run that was rolled back) are left alone.
HiddenSteps hide_old_steps(const std::filesystem::path& save, int64_t keep_last);

/// Restores a step that an interrupted save was about to replace, recreates `latest` if a first
/// save was interrupted before writing it, and removes the remains of interrupted saves. These are
/// only folders step_NNNNNNNN.tmp-new and .tmp-old (or .tmp-old2 …), and files of a run's own
/// (`latest`, `best`, config.yaml, metrics.jsonl, router_load.svg, sessions.jsonl) as NAME.tmp-PID
/// of processes that do not exist on this machine. The caller must hold the folder
/// (checkpoint/run_lock.h); folders that `remover` is removing are left to it. One that cannot be
/// removed stays, with a warning.
void remove_leftovers(const std::filesystem::path& save, const OldSteps* remover = nullptr);
/// Whether a folder holds nothing but such remains, and the lock of whoever left them.
bool has_only_leftovers(const std::filesystem::path& save);

/// Creates the folder and its parents; IoError with the reason.
void create_folder(const std::filesystem::path& folder);

}  // namespace viaduct
