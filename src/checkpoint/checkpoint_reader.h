#pragma once
// Reading one checkpoint, at any layout: the reader assembles whatever piece of a logical tensor is
// asked for from the pieces that are stored.

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_index.h"
#include "checkpoint/mapped_storage.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

class CheckpointReader : public TensorSource {
 public:
  /// Opens a step folder. Checks index.json completely, the sizes of all shards and the checksums
  /// of the further files; the checksum of a stored piece is checked when it is first read. IoError
  /// that says what and where otherwise.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return index_.step; }
  /// The state that the writer was given, as JSON text.
  const std::string& state() const { return index_.state; }
  const CheckpointIndex& index() const { return index_; }

  /// The logical tensors, by name. Those whose name holds a '/' are no weights (optimizer state …).
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

  /// Reads every byte and compares all checksums.
  void verify() const;

 private:
  const StoredTensor& stored(const std::string& name) const;
  const std::byte* checked_bytes(const std::string& name, const StoredTensor& tensor,
                                 size_t piece) const;

  std::filesystem::path folder_;
  CheckpointIndex index_;
  std::vector<TensorInfo> infos_;
  std::vector<MappedStorage> shards_;
  // Whether a stored piece's checksum was compared, for all pieces of all tensors in order.
  std::map<std::string, size_t> first_piece_;
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

/// True for names of tensors that are weights: optimizer and trainer state have a '/' in theirs.
bool is_weight_name(const std::string& name);

/// The tensors of a checkpoint that are weights.
class CheckpointWeights : public TensorSource {
 public:
  /// `checkpoint` outlives it.
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
  /// If the latest checkpoint of a save folder is damaged or missing, take the newest one before it
  /// that is whole, with a warning. Every candidate is then read completely first.
  bool fall_back_to_previous = false;
};

/// Opens a step folder, or the latest step of a save folder. A step folder never falls back.
std::unique_ptr<CheckpointReader> open_checkpoint(const std::filesystem::path& folder,
                                                  const OpenCheckpointOptions& options = {});

}  // namespace viaduct
