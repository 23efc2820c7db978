#pragma once
// The folder that a run saves into: SAVE/step_00000010/ … and SAVE/latest, which names the newest
// complete step. A step appears under its name only when it is complete: until then it is called
// step_00000010.tmp-new. One run at a time writes into a save folder: run_lock.h.

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
/// The step in a name like that; nothing if it is another name.
std::optional<int64_t> parse_step_folder_name(std::string_view name);

/// Steps whose folders are there, ascending; IoError if `save` cannot be listed.
std::vector<int64_t> saved_steps(const std::filesystem::path& save);

/// True if SAVE/latest is there: some checkpoint was completed.
bool has_latest(const std::filesystem::path& save);
/// The step that SAVE/latest names; IoError if it is missing, names nothing, or its folder is
/// missing (saying which steps are there).
int64_t latest_step(const std::filesystem::path& save);
void write_latest(const std::filesystem::path& save, int64_t step);

/// Makes the complete folder `temporary` the folder of `step`, in one step also where one is there
/// already. Returns the hidden folder of the old one, to be removed, where there was one.
std::vector<std::filesystem::path> publish_step(const std::filesystem::path& temporary,
                                                const std::filesystem::path& save, int64_t step);

/// Keeps the newest `keep_last` good steps up to the latest one and hides those before them (0
/// keeps all): moves each out of sight, so that half a folder is never met under the name of a
/// step. Returns the hidden folders, to be removed. A step that cannot be opened (a damaged index,
/// a file missing or of another size) is none of those that count. Steps beyond the latest (of a
/// run that was taken back) are left alone. IoError if one cannot be hidden.
std::vector<std::filesystem::path> hide_old_steps(const std::filesystem::path& save,
                                                  int64_t keep_last);

/// Puts a step back that an interrupted save was about to replace, makes `latest` again where a first
/// save was interrupted before it, and removes what interrupted saves left: folders and files with ".tmp-" in their names that belong
/// to a step or to `latest`, and files NAME.tmp-PID of processes that this machine has not. Whoever
/// calls it has the folder to himself (checkpoint/run_lock.h); what `remover` has in hand is left
/// to it.
void remove_leftovers(const std::filesystem::path& save, const OldSteps* remover = nullptr);

/// Creates the folder and its parents; IoError with the reason.
void create_folder(const std::filesystem::path& folder);

}  // namespace viaduct
