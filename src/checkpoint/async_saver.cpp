#include "checkpoint/async_saver.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace viaduct {

void stage_runs(Device& device, const std::vector<StoredRun>& runs, const std::string& prefix,
                StagedCheckpoint& staged) {
  for (const StoredRun& stored : runs) {
    for (const LogicalPiece& piece : logical_pieces(stored.run)) {
      if (!piece.part->owned) continue;
      const TensorInfo tensor{prefix + piece.part->name, DType::f32, piece.part->logical_shape};
      staged.entries.push_back({{tensor, piece.piece}, read_logical(device, stored, piece)});
    }
  }
}

void save_checkpoint(const StagedCheckpoint& checkpoint) {
  CheckpointWriter writer(checkpoint.save, checkpoint.step);
  ShardWriter shard(writer.folder(), 0);
  for (const auto& [entry, data] : checkpoint.entries) shard.add(entry, data);
  shard.finish();
  writer.set_state(checkpoint.state);
  for (const auto& [name, content] : checkpoint.files) writer.add_file(name, content);
  writer.commit(checkpoint.keep_last);
}

struct AsyncSaver::State {
  explicit State(bool continues) : continue_after_failure(continues) {}

  const bool continue_after_failure;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string what;
  std::function<void()> job;  // not empty while one waits or runs
  std::exception_ptr error;   // of the last job, until it is thrown or a later job succeeds
  int64_t failures = 0;
  bool stop = false;
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || job; });
      if (!job) return;  // a job that was started is finished before stopping
      const std::function<void()> running = job;
      lock.unlock();
      std::exception_ptr failure;
      std::string reason = "unknown error";
      try {
        running();
      } catch (const std::exception& exception) {
        failure = std::current_exception();
        reason = exception.what();
      } catch (...) {
        failure = std::current_exception();
      }
      if (failure && continue_after_failure)
        log_warning("{} FAILED, going on without it: {}", what, reason);
      lock.lock();
      error = failure;
      failures += failure != nullptr;
      job = nullptr;
      changed.notify_all();
    }
  }

  void wait(std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [&] { return !job; });
  }
};

AsyncSaver::AsyncSaver(bool continue_after_failure)
    : state_(std::make_unique<State>(continue_after_failure)) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

AsyncSaver::~AsyncSaver() {
  {
    std::unique_lock lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
  if (!state_->error || state_->continue_after_failure) return;
  try {
    std::rethrow_exception(state_->error);
  } catch (const std::exception& error) {
    log_warning("{} FAILED: {}", state_->what, error.what());
  } catch (...) {
    log_warning("{} FAILED", state_->what);
  }
}

void AsyncSaver::start(std::string what, std::function<void()> job) {
  VIADUCT_CHECK(IoError, job != nullptr, "{}: nothing to do", what);
  std::unique_lock lock(state_->mutex);
  state_->wait(lock);
  std::exception_ptr error = std::exchange(state_->error, nullptr);
  if (error && !state_->continue_after_failure) std::rethrow_exception(error);
  state_->what = std::move(what);
  state_->job = std::move(job);
  state_->changed.notify_all();
}

void AsyncSaver::save(StagedCheckpoint checkpoint) {
  auto staged = std::make_shared<StagedCheckpoint>(std::move(checkpoint));
  start(fmt::format("checkpoint of step {}", staged->step), [staged] { save_checkpoint(*staged); });
}

void AsyncSaver::join() {
  std::unique_lock lock(state_->mutex);
  state_->wait(lock);
  if (std::exception_ptr error = std::exchange(state_->error, nullptr))
    std::rethrow_exception(error);
}

bool AsyncSaver::busy() const {
  std::unique_lock lock(state_->mutex);
  return state_->job != nullptr;
}

int64_t AsyncSaver::failures() const {
  std::unique_lock lock(state_->mutex);
  return state_->failures;
}

}  // namespace viaduct
