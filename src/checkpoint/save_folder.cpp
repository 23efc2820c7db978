#include "checkpoint/save_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/output_file.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/run_lock.h"

namespace viaduct {
namespace {

constexpr std::string_view kStep = "step_";
constexpr const char* kLatest = "latest";
constexpr const char* kBest = "best";
constexpr const char* kHidden = ".tmp-old";

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  VIADUCT_CHECK(IoError, !error, "cannot rename {} to {}: {}", from.string(), to.string(),
                error.message());
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  VIADUCT_CHECK(IoError, !error, "cannot list {}: {}", folder.string(), error.message());
  return names;
}

/// Index and sizes are checked, no byte of a tensor is read.
bool can_be_opened(const std::filesystem::path& folder) {
  try {
    const CheckpointReader reader(folder);
    return true;
  } catch (const IoError&) {
    return false;
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Whether an entry of a save folder is what an interrupted save or run left there.
bool is_leftover(const std::filesystem::path& save, const std::string& name) {
  constexpr std::string_view kMark = ".tmp-";
  const size_t cut = name.find(kMark);
  if (cut == std::string::npos) return false;
  const std::string_view base = std::string_view(name).substr(0, cut),
                         end = std::string_view(name).substr(cut + kMark.size());
  const auto type = std::filesystem::symlink_status(save / name).type();
  if (parse_step_folder_name(base)) {
    const bool hidden = end.starts_with("old") && (end.size() == 3 || is_number(end.substr(3)));
    return type == std::filesystem::file_type::directory && (end == "new" || hidden);
  }
  if (type != std::filesystem::file_type::regular) return false;
  if (base == kLatest || base == kBest) return is_number(end);
  for (const std::string_view own :
       {"config.yaml", "metrics.jsonl", "router_load.svg", "sessions.jsonl"})
    if (base == own) return dead_process(end).has_value();
  return false;
}

/// A free name for a folder to be removed: step_00000010.tmp-old, or with a number after it while
/// an earlier one is still being removed.
std::filesystem::path hidden_name(const std::filesystem::path& save, int64_t step) {
  const std::string name = (save / step_folder_name(step)).string() + kHidden;
  std::filesystem::path hidden = name;
  for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(hidden)); ++number)
    hidden = name + std::to_string(number);
  return hidden;
}

/// A crash between the two renames of `publish_step` leaves the step that `latest` names hidden:
/// restore it.
void bring_back_hidden(const std::filesystem::path& save) {
  if (!has_latest(save)) return;
  std::string name = read_file(save / kLatest, 4096);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  if (!parse_step_folder_name(name)) return;
  std::error_code ignored;
  if (std::filesystem::exists(save / name, ignored)) return;
  for (const std::string& hidden : names_in(save)) {
    if (!hidden.starts_with(name + kHidden) || !can_be_opened(save / hidden)) continue;
    rename_folder(save / hidden, save / name);
    sync_folder(save);
    return;
  }
}

/// A crash in the first save, after its step appeared and before `latest` was written: let `latest`
/// name the newest complete step. (Steps appear complete.)
void name_latest(const std::filesystem::path& save) {
  if (has_latest(save)) return;
  const std::vector<int64_t> steps = saved_steps(save);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (!can_be_opened(save / step_folder_name(*step))) continue;
    log_warning(
        "{}: no file \"latest\" (its first save was interrupted, or it was deleted); it is created "
        "again and names {}, the newest complete step",
        save.string(), step_folder_name(*step));
    return write_latest(save, *step);
  }
}

}  // namespace

std::string step_folder_name(int64_t step) {
  return fmt::format("{}{:08}", kStep, step);
}

std::optional<int64_t> parse_step_folder_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // Accepts only the spelling of step_folder_name.
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (step < 0 || step_folder_name(step) != name) return std::nullopt;
  return step;
}

std::vector<int64_t> saved_steps(const std::filesystem::path& save) {
  std::vector<int64_t> steps;
  for (const auto& name : names_in(save))
    if (const auto step = parse_step_folder_name(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string names_of_steps(const std::filesystem::path& save) {
  std::string list;
  for (const int64_t step : saved_steps(save))
    list += (list.empty() ? "" : " ") + step_folder_name(step);
  return list.empty() ? "none" : list;
}

bool has_latest(const std::filesystem::path& save) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(save / kLatest, ignored);
}

int64_t latest_step(const std::filesystem::path& save) {
  const auto path = save / kLatest;
  const auto there = [&] { return " " + names_of_steps(save); };
  VIADUCT_CHECK(IoError, has_latest(save),
                "{}: no file \"latest\", so no checkpoint was completed (steps there:{})",
                save.string(), there());
  std::string name = read_file(path, 4096);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  const auto step = parse_step_folder_name(name);
  VIADUCT_CHECK(IoError, step, "{}: \"{}\" is not the name of a step (steps there:{})",
                path.string(), shown_name(name), there());
  std::error_code ignored;
  VIADUCT_CHECK(IoError, std::filesystem::is_directory(save / name, ignored),
                "{}: names {}, which is missing (steps there:{})", path.string(), name, there());
  return *step;
}

void write_latest(const std::filesystem::path& save, int64_t step) {
  write_file_atomically(save / kLatest, step_folder_name(step) + "\n");
}

std::optional<int64_t> best_step(const std::filesystem::path& save) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(save / kBest, ignored)) return std::nullopt;
  std::string name = read_file(save / kBest, 4096);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  const auto step = parse_step_folder_name(name);
  if (!step || !std::filesystem::is_directory(save / name, ignored)) return std::nullopt;
  return step;
}

void write_best(const std::filesystem::path& save, int64_t step) {
  write_file_atomically(save / kBest, step_folder_name(step) + "\n");
}

void remove_best(const std::filesystem::path& save) {
  std::error_code error;
  std::filesystem::remove(save / kBest, error);
  VIADUCT_CHECK(IoError, !error, "cannot remove {}: {}", (save / kBest).string(), error.message());
}

std::vector<std::filesystem::path> publish_step(const std::filesystem::path& temporary,
                                                const std::filesystem::path& save, int64_t step) {
  const auto target = save / step_folder_name(step);
  std::error_code ignored;
  if (!std::filesystem::exists(target, ignored)) {
    rename_folder(temporary, target);
    sync_folder(save);
    return {};
  }
  // Exchanges the two atomically; a file system without that operation gets two renames, and a
  // crash between them leaves the new one under its temporary name.
  const std::filesystem::path hidden = hidden_name(save, step);
  const bool exchanged =
      ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
  if (exchanged) {
    sync_folder(save);
    rename_folder(temporary, hidden);
    return {hidden};
  }
  VIADUCT_CHECK(IoError, errno == EINVAL || errno == ENOSYS, "cannot replace {}: {}",
                target.string(), std::strerror(errno));
  rename_folder(target, hidden);
  rename_folder(temporary, target);
  sync_folder(save);
  return {hidden};
}

HiddenSteps hide_old_steps(const std::filesystem::path& save, int64_t keep_last) {
  if (keep_last <= 0) return {};
  const int64_t latest = latest_step(save);
  std::vector<int64_t> steps = saved_steps(save);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), latest), steps.end());
  size_t kept_from = steps.size();  // index of the oldest one that is kept
  for (int64_t good = 0; kept_from > 0 && good < keep_last;)
    good += can_be_opened(save / step_folder_name(steps[--kept_from])) ? 1 : 0;
  HiddenSteps hidden;
  const std::optional<int64_t> best = best_step(save);
  for (size_t i = 0; i < kept_from; ++i) {
    if (best == steps[i]) continue;
    const auto step = save / step_folder_name(steps[i]);
    std::error_code ignored;
    if (!std::filesystem::exists(step / kCheckpointIndexFile, ignored)) continue;
    const auto name = hidden_name(save, steps[i]);
    try {
      rename_folder(step, name);
      hidden.folders.push_back(name);
    } catch (const IoError& error) {
      hidden.stuck.emplace_back(error.what());
    }
  }
  return hidden;
}

void remove_leftovers(const std::filesystem::path& save, const OldSteps* remover) {
  bring_back_hidden(save);
  name_latest(save);
  for (const auto& name : names_in(save)) {
    if ((remover != nullptr && remover->has(name)) || !is_leftover(save, name)) continue;
    std::error_code error;
    std::filesystem::remove_all(save / name, error);
    // It costs only space: no reason to end a run, or to save nothing any more.
    if (error)
      log_warning("a leftover stays: cannot remove {}: {}", (save / name).string(),
                  error.message());
  }
}

bool has_only_leftovers(const std::filesystem::path& save) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(save, ignored)) return false;
  const std::vector<std::string> names = names_in(save);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == kLockFile || is_leftover(save, name);
  });
}

void create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  VIADUCT_CHECK(IoError, !error, "cannot create folder {}: {}", folder.string(), error.message());
}

}  // namespace viaduct
