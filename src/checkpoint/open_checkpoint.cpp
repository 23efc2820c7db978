#include "checkpoint/open_checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/save_folder.h"

namespace viaduct {
namespace {

/// How a candidate is opened: the folder itself, the step that the folder names, or that step after
/// reading all of it.
constexpr char kAsItIs = 'a', kStep = 's', kWhole = 'w';

/// The candidates of rank 0, in order.
struct Candidates {
  std::vector<std::filesystem::path> folders;
  char how = kStep;
  std::string first_problem;

  void note(const std::string& problem) {
    log_warning("{}", problem);
    if (first_problem.empty()) first_problem = problem;
  }
};

Candidates candidates_in(const std::filesystem::path& folder, bool fall_back) {
  Candidates candidates;
  std::error_code ignored;
  if (folder.empty()) return candidates;
  // A step given by the user never falls back.
  if (std::filesystem::exists(folder / kCheckpointIndexFile, ignored)) {
    candidates.how = kAsItIs;
    candidates.folders.push_back(folder);
    return candidates;
  }
  const auto save = folder.parent_path();
  VIADUCT_CHECK(IoError,
                std::filesystem::exists(folder, ignored) ||
                    !parse_step_folder_name(folder.filename().string()) ||
                    !std::filesystem::is_directory(save, ignored),
                "{}: no such checkpoint (steps in {}: {})", folder.string(), save.string(),
                names_of_steps(save));
  if (!fall_back) {
    candidates.folders.push_back(folder / step_folder_name(latest_step(folder)));
    return candidates;
  }
  candidates.how = kWhole;
  std::vector<int64_t> steps = saved_steps(folder);
  try {
    const int64_t latest = latest_step(folder);
    steps.erase(std::upper_bound(steps.begin(), steps.end(), latest), steps.end());
  } catch (const IoError& error) {
    candidates.note(error.what());
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    candidates.folders.push_back(folder / step_folder_name(*step));
  return candidates;
}

void check_step(const CheckpointReader& reader) {
  VIADUCT_CHECK(IoError, step_folder_name(reader.step()) == reader.folder().filename().string(),
                "{}: holds step {}", reader.where(), reader.step());
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

}  // namespace

std::unique_ptr<CheckpointReader> open_on_all(Communicator& world,
                                              const std::filesystem::path& folder,
                                              const OpenCheckpointOptions& options) {
  const bool leads = world.rank() == 0;
  Candidates candidates;
  run_on_all(
      world,
      [&] {
        if (leads) candidates = candidates_in(folder, options.fall_back_to_previous);
      },
      "looking for a checkpoint");
  const bool nothing = leads && folder.empty();
  // Rank 0's message about the next candidate: how to open it and its name, or the end.
  for (size_t i = 0;; ++i) {
    std::string next;
    if (leads && i < candidates.folders.size())
      next = candidates.how + candidates.folders[i].string();
    if (leads && next.empty() && !nothing) {
      fail<IoError>("{}: no complete checkpoint to fall back to (first problem: {})",
                    folder.string(),
                    candidates.first_problem.empty() ? "no steps there" : candidates.first_problem);
    }
    next = world.host().text_of_rank_0(next);
    if (next.empty()) return nullptr;
    std::unique_ptr<CheckpointReader> reader;
    const auto error = try_on_all(
        world,
        [&] {
          reader = std::make_unique<CheckpointReader>(next.substr(1),
                                                      OpenShare{world.rank(), world.size()});
          if (next[0] != kAsItIs) check_step(*reader);
          if (next[0] == kWhole) reader->verify();
        },
        "opening the checkpoint");
    if (error && next[0] != kWhole) std::rethrow_exception(error);
    if (error) {
      if (leads) candidates.note(text_of(error));
      continue;
    }
    if (leads && !candidates.first_problem.empty())
      log_warning("FALLING BACK to {}: newer checkpoints cannot be used", reader->where());
    return reader;
  }
}

std::unique_ptr<CheckpointReader> open_checkpoint(const std::filesystem::path& folder,
                                                  const OpenCheckpointOptions& options) {
  return open_on_all(*make_self_communicator(), folder, options);
}

}  // namespace viaduct
