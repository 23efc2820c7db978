#pragma once
// Reading one checkpoint, at any layout: the reader assembles any requested piece of a logical
// tensor from the stored pieces. Shards are opened, and parts of the index parsed, on demand.

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/mapped_storage.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

/// This rank's number among the ranks that open a checkpoint together. Checks of data that belong
/// to no particular rank are divided among them.
struct OpenShare {
  int rank = 0, ranks = 1;
};

class CheckpointReader : public TensorSource {
 public:
  /// Opens a step folder. IoError with file and reason unless index.json is intact, pieces.jsonl
  /// and the further files match their checksums, and all shards have their sizes (each file is
  /// checked by one rank of the share). The checksum of a stored piece, and of its line in the
  /// index, are compared at the first read.
  explicit CheckpointReader(const std::filesystem::path& folder, OpenShare share = {});
  ~CheckpointReader() override;

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return directory_.step; }
  /// The state given to the writer, as JSON text.
  const std::string& state() const { return directory_.state; }
  /// The further files.
  const std::vector<StoredFile>& files() const { return directory_.files; }
  /// The whole index: O(pieces of all ranks).
  CheckpointIndex index() const;

  /// The logical tensors, by name. Those with a '/' in their name are not weights (optimizer state
  /// …).
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(const std::string& name) const override;
  std::string where() const override { return folder_.string(); }
  /// The whole tensor; a read-only view of the mapped shard where it is stored in one piece.
  Tensor tensor(const std::string& name) const override;
  void check_read() const override;

  /// A box of a tensor, in its own memory. ShapeError if the box is not inside the tensor.
  Tensor read(const std::string& name, const Box& box) const;
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;

  /// Reads every byte of this rank's share of the shards (all, for a share of one) and compares all
  /// checksums. Logs its progress.
  void verify() const;

  /// How many shards were opened so far.
  int64_t opened_shards() const;
  /// Lines of the index that were parsed so far.
  int64_t parsed_lines() const;

 private:
  struct Stored;  // a tensor whose line was read
  struct Shard;   // an opened one

  std::string pieces_where() const;
  std::string_view line(const IndexLine& line, const std::string& where) const;
  StoredFile shard_file(int64_t shard) const;
  Stored& stored(const std::string& name) const;
  Shard& shard(size_t number) const;
  void check_files() const;
  void check_shard_sizes() const;
  const std::byte* bytes_of(const std::string& name, Stored& tensor, size_t piece) const;
  const std::byte* checked_bytes(const std::string& name, Stored& tensor, size_t piece) const;
  void explain_damage(size_t number) const;

  std::filesystem::path folder_;
  OpenShare share_;
  CheckpointDirectory directory_;
  int64_t shards_ = 0;
  MappedFile pieces_;
  std::vector<TensorInfo> infos_;
  mutable std::mutex mutex_;  // of the members that are filled on demand:
  mutable std::map<std::string, std::unique_ptr<Stored>> stored_;
  mutable std::map<int64_t, std::vector<StoredFile>> shard_files_;  // by line
  mutable std::map<size_t, std::unique_ptr<Shard>> open_;
};

/// True for names of tensors that are weights: optimizer and trainer state have a '/' in theirs.
bool is_weight_name(const std::string& name);

/// The tensors of a checkpoint that are weights.
class CheckpointWeights : public TensorSource {
 public:
  /// `checkpoint` must outlive it.
  explicit CheckpointWeights(const CheckpointReader& checkpoint);
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(const std::string& name) const override;
  Tensor tensor(const std::string& name) const override;
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  void check_read() const override { checkpoint_.check_read(); }
  std::string where() const override { return checkpoint_.where(); }

 private:
  const CheckpointReader& checkpoint_;
  std::vector<TensorInfo> infos_;
};

struct OpenCheckpointOptions {
  /// If the latest checkpoint of a save folder is damaged or missing, opens the newest intact one
  /// before it, with a warning. Every candidate is then read completely first.
  bool fall_back_to_previous = false;
};

/// Opens a step folder, or the latest step of a save folder. A step folder never falls back.
std::unique_ptr<CheckpointReader> open_checkpoint(const std::filesystem::path& folder,
                                                  const OpenCheckpointOptions& options = {});

}  // namespace viaduct
