#pragma once
// Writing one checkpoint. Each rank writes its pieces into its own shard; one rank (the
// coordinator) adds state and files and publishes the step. The step's name does not exist before
// everything is on disk.
//
//   CheckpointWriter writer(save, step, ranks);            // coordinator; then a barrier
//   ShardWriter shard(checkpoint_temporary_folder(save, step), rank);   // every rank
//   shard.add(…); …; shard.finish();                                    // then a barrier
//   writer.set_state(…); writer.add_file(…); writer.commit(keep_last);  // coordinator

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "checkpoint/checkpoint_index.h"

namespace viaduct {

/// Where a checkpoint is built: SAVE/step_00000010.tmp-new.
std::filesystem::path checkpoint_temporary_folder(const std::filesystem::path& save, int64_t step);

/// A piece of a logical tensor, as described by a caller.
struct CheckpointEntry {
  TensorInfo tensor;  // the whole logical tensor: name, dtype, true shape
  Piece piece;        // the elements held here
};

/// The entry of a whole tensor.
CheckpointEntry whole_entry(const TensorInfo& tensor);

class ShardWriter {
 public:
  /// Starts the shard of `rank` in the folder of a checkpoint under construction.
  ShardWriter(const std::filesystem::path& folder, int rank);
  ~ShardWriter();

  /// Appends a piece: `data` has its elements in row-major order of the box, in any shape and
  /// strides, in host memory; it may be freed when the call returns. ShapeError if dtype or count
  /// do not match the entry; IoError if it cannot be written.
  void add(const CheckpointEntry& entry, const Tensor& data);
  /// The whole tensor `name`.
  void add(const std::string& name, const Tensor& data);

  /// Flushes to disk and writes this rank's part of the index beside the shard.
  void finish();

 private:
  void append(const void* data, size_t bytes);
  void align();

  std::filesystem::path folder_;
  int rank_;
  CheckpointIndex index_;
  std::unique_ptr<OutputFile> file_;
  struct Sum;
  std::unique_ptr<Sum> sum_;  // of the whole shard
};

class OldSteps;
class RunLock;

class CheckpointWriter {
 public:
  /// Creates the temporary folder (and `save`), after removing the remains of interrupted saves.
  /// Old steps that `remover` is removing are not touched.
  CheckpointWriter(const std::filesystem::path& save, int64_t step, int ranks = 1,
                   OldSteps* remover = nullptr);
  /// Removes the temporary folder unless it was published.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// The temporary folder, for ShardWriter.
  const std::filesystem::path& folder() const { return folder_; }

  /// State of the run other than tensors, as JSON text (finite numbers; nesting up to 64).
  void set_state(std::string json);
  /// A further file of the step folder: config.json, tokenizer files … The name is plain, or
  /// additional_chat_templates/NAME.jinja.
  void add_file(const std::string& name, std::string_view content);
  /// The same with the content of `folder`'s file of that name.
  void copy_file(const std::filesystem::path& folder, const std::string& name);

  /// Joins the ranks' parts, checks that each tensor is complete, without duplicates, writes
  /// index.json, publishes the step, points `latest` to it, and `best` if `is_best`, and removes
  /// old steps (`keep_last` 0 keeps all): by `remover`, or, without one, before it returns. Checks
  /// `lock`, if given, before each of these. IoError if anything fails; earlier checkpoints are
  /// then untouched.
  void commit(int64_t keep_last = 0, RunLock* lock = nullptr, OldSteps* remover = nullptr,
              bool is_best = false);

 private:
  std::filesystem::path save_, folder_;
  int ranks_;
  CheckpointIndex index_;
  bool published_ = false;
};

}  // namespace viaduct
