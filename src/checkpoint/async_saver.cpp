#include "checkpoint/async_saver.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/on_all_ranks.h"
#include "checkpoint/run_lock.h"

namespace viaduct {
namespace {

// A save has three phases; each ends when all ranks have finished it. Rank 0 creates the temporary
// folder; every rank writes its shard; rank 0 joins the index and publishes the step.

constexpr std::string_view kBeginning = "making room for a checkpoint",
                           kWriting = "writing a checkpoint",
                           kPublishing = "publishing a checkpoint";

/// The writer of rank 0; null on other ranks, which are idle in the first and the last phase.
std::unique_ptr<CheckpointWriter> begin_save(const Communicator& world,
                                             const StagedCheckpoint& checkpoint) {
  if (world.rank() > 0) return nullptr;
  if (checkpoint.lock) checkpoint.lock->check();
  return std::make_unique<CheckpointWriter>(checkpoint.save, checkpoint.step, world.size(),
                                            checkpoint.old_steps.get());
}

void write_shard(const StagedCheckpoint& checkpoint, int rank) {
  ShardWriter shard(checkpoint_temporary_folder(checkpoint.save, checkpoint.step), rank);
  for (const auto& entry : checkpoint.entries) shard.add(entry.entry, entry.values());
  shard.finish();
}

void commit(CheckpointWriter* writer, const StagedCheckpoint& checkpoint) {
  if (writer == nullptr) return;
  writer->set_state(checkpoint.state);
  for (const auto& [name, content] : checkpoint.files) writer->add_file(name, content);
  writer->commit(checkpoint.keep_last, checkpoint.lock.get(), checkpoint.old_steps.get(),
                 checkpoint.is_best);
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

void stage_runs(Device& device, const std::vector<StoredRun>& runs, const std::string& prefix,
                StagedCheckpoint& staged, Staging staging) {
  for (const StoredRun& stored : runs) {
    const DType format = exact_format(stored);
    for (const LogicalPiece& piece : logical_pieces(stored.run)) {
      if (!piece.part->owned) continue;
      const TensorInfo tensor{prefix + piece.part->name, format, piece.part->logical_shape};
      StagedCheckpoint::Entry entry{{tensor, piece.piece}, {}, {}};
      if (staging == Staging::copied) {
        entry.data = read_logical(device, stored, piece, 1, format);
      } else {
        entry.read = [&device, stored, piece, format] {
          return read_logical(device, stored, piece, 1, format);
        };
      }
      staged.entries.push_back(std::move(entry));
    }
  }
}

void save_checkpoint(Communicator& world, const StagedCheckpoint& checkpoint) {
  std::unique_ptr<CheckpointWriter> writer;
  run_on_all(
      world, [&] { writer = begin_save(world, checkpoint); }, kBeginning);
  run_on_all(
      world, [&] { write_shard(checkpoint, world.rank()); }, kWriting);
  run_on_all(
      world, [&] { commit(writer.get(), checkpoint); }, kPublishing);
}

AsyncSaver::AsyncSaver(Communicator& world, bool continue_after_failure)
    : world_(world), continue_after_failure_(continue_after_failure) {}

AsyncSaver::~AsyncSaver() {
  // Writing may take long; until then the other ranks would wait for this rank for nothing.
  const bool writing =
      work_.valid() && work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (writing && world_.size() > 1 && std::uncaught_exceptions() > 0)
    world_.fail_all(
        fmt::format("failed while the checkpoint of step {} was being written", staged_.step));
  try {
    if (world_.size() == 1) finish();
  } catch (...) {
    error_ = std::current_exception();
  }
  if (work_.valid()) work_.wait();
  if (error_ && !continue_after_failure_)
    log_warning("checkpoint of step {} FAILED: {}", staged_.step, message_of(error_));
}

void AsyncSaver::save(StagedCheckpoint checkpoint) {
  finish();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  if (error && !continue_after_failure_) std::rethrow_exception(error);
  staged_ = std::move(checkpoint);
  if (const auto failure = try_on_all(
          world_, [&] { writer_ = begin_save(world_, staged_); }, kBeginning)) {
    failed(failure);
    return;
  }
  phase_ = Phase::shards;
  work_ = std::async(std::launch::async, [this] { write_shard(staged_, world_.rank()); });
}

bool AsyncSaver::writes() const {
  return phase_ != Phase::idle &&
         work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void AsyncSaver::advance(bool any_writes) {
  if (phase_ != Phase::idle && !any_writes) next_phase();
}

void AsyncSaver::advance() {
  if (phase_ != Phase::idle) advance(world_.host().most(writes() ? 1 : 0) > 0);
}

void AsyncSaver::next_phase() {
  if (const auto failure = try_on_all(
          world_, [&] { work_.get(); }, phase_ == Phase::shards ? kWriting : kPublishing)) {
    failed(failure);
    return;
  }
  if (phase_ == Phase::shards) {
    phase_ = Phase::commit;
    work_ = std::async(std::launch::async, [this] { commit(writer_.get(), staged_); });
    return;
  }
  phase_ = Phase::idle;
  writer_.reset();
  staged_.entries.clear();
}

void AsyncSaver::finish() {
  while (phase_ != Phase::idle) next_phase();  // `get` waits for this rank, the exchange for all
}

void AsyncSaver::failed(const std::exception_ptr& error) {
  phase_ = Phase::idle;
  writer_.reset();  // no rank is writing: remove the temporary folder
  staged_.entries.clear();
  error_ = error;
  ++failures_;
  if (continue_after_failure_ && world_.rank() == 0)
    log_warning("checkpoint of step {} FAILED, continuing without it: {}", staged_.step,
                message_of(error));
}

void AsyncSaver::give_up() noexcept {
  if (work_.valid()) work_.wait();
  work_ = {};
  phase_ = Phase::idle;
  writer_.reset();
  staged_.entries.clear();
  error_ = nullptr;
}

void AsyncSaver::join() {
  finish();
  if (const std::exception_ptr error = std::exchange(error_, nullptr))
    std::rethrow_exception(error);
}

}  // namespace viaduct
