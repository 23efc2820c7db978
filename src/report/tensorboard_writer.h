#pragma once
// Writes scalars as a TensorBoard event file: `tensorboard --logdir FOLDER` shows them during the
// run.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "report/tensorboard_events.h"

namespace viaduct {

class AppendFile;

class TensorBoardWriter {
 public:
  /// Starts a new file events.out.tfevents.SECONDS.HOST.PID.N in `folder` (made if missing). A
  /// resumed run passes its first new step: TensorBoard then drops the interrupted run's records of
  /// it and of later ones. IoError if the file cannot be made.
  explicit TensorBoardWriter(const std::filesystem::path& folder,
                             std::optional<int64_t> first_step = std::nullopt);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// Appends one event with all scalars of a step; visible to readers at once. IoError on failure.
  void write(int64_t step, std::span<const tensorboard::Scalar> scalars);
  void write(int64_t step, std::span<const tensorboard::Text> texts);

  /// Flushes all events to disk.
  void sync();

  const std::filesystem::path& path() const;

 private:
  std::unique_ptr<AppendFile> file_;
};

}  // namespace viaduct
