// The last save of a run that fails where its ranks are not together: in a step, an evaluation.

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

/// How long a rank waits for the others. They leave what they do at their next exchange; a rank
/// that computes longer than this, or is gone, is not waited for.
constexpr double kMeetingSeconds = 60;

}  // namespace

void Trainer::save_before_failing(const std::exception& error) {
  if (!config_.checkpoint.save || config_.train.skip_train || ended_) return;
  const bool alone = world_->size() == 1;
  if (alone && !(may_save_ && made_steps() && !keeper_->has_saved(state_.step))) return;
  // The cause, where this rank's error is that another has failed.
  const std::string known = world_->failure(), cause = known.empty() ? error.what() : known;
  try {
    const std::shared_ptr<Communicator> again = alone ? world_ : world_->reconnect(kMeetingSeconds);
    if (!again) return;
    // Whether and what is saved is the same decision on all ranks.
    const std::array<HostFigure, 3> mine{
        {{may_save_ && made_steps() ? 1.0 : 0.0},
         {static_cast<double>(state_.step)},
         {keeper_->has_saved(state_.step) && !keeper_->busy() ? 1.0 : 0.0}}};
    const std::vector<FigureOfRanks> all = again->host().post(mine).wait();
    const FigureOfRanks &whole = all.at(0), &step = all.at(1), &saved = all.at(2);
    if (saved.least > 0 || whole.most == 0) return;
    log_->note(fmt::format("the run cannot go on after step {}: {}", state_.step, cause));
    if (whole.least == 0 || step.least != step.most) {
      log_->note(fmt::format("its state is not saved: some ranks have begun an update{}",
                             keeper_->last_checkpoint()));
    } else {
      try {
        if (alone) {
          save(true);
        } else {
          may_save_ = false;
          keeper_->save_with(*again, saved_state(), *log_);
        }
      } catch (const CommError&) {
        throw;
      } catch (const std::exception& second) {
        log_->note(fmt::format("warning: its state cannot be saved: {}", second.what()));
      }
      if (keeper_->owns_folder(*log_)) log_->stopped(state_.step, "error");
    }
    // A launcher ends all processes with the first that ends: rank 0 has written its lines.
    again->host().most(0);
  } catch (const std::exception& second) {
    log_->note(fmt::format("warning: its state cannot be saved: {}", second.what()));
  }
}

}  // namespace viaduct
