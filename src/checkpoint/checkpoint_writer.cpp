#include "checkpoint/checkpoint_writer.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/index_json.h"
#include "checkpoint/old_steps.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "tensor/contiguous_runs.h"

namespace viaduct {
namespace {

constexpr size_t kSideFileLimitBytes = size_t{1} << 30;

std::string shard_name(int rank) {
  return fmt::format("rank_{:05}.bin", rank);
}

std::string part_name(int rank) {
  return fmt::format("rank_{:05}.json", rank);
}

}  // namespace

std::filesystem::path checkpoint_temporary_folder(const std::filesystem::path& save, int64_t step) {
  return save / (step_folder_name(step) + ".tmp-new");
}

CheckpointEntry whole_entry(const TensorInfo& tensor) {
  return {tensor, whole_piece(whole_box(tensor.shape))};
}

struct ShardWriter::Sum {
  Hasher64 hasher;
};

ShardWriter::ShardWriter(const std::filesystem::path& folder, int rank)
    : folder_(folder), rank_(rank), sum_(std::make_unique<Sum>()) {
  const std::string name = shard_name(rank);
  file_ = std::make_unique<OutputFile>(folder / name);
  index_.shards.push_back({name, 0, 0});
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::append(const void* data, size_t bytes) {
  VIADUCT_CHECK(IoError, file_ != nullptr, "{}: written to after finish", shard_name(rank_));
  file_->write(data, bytes);
  sum_->hasher.update(data, bytes);
  index_.shards[0].bytes += static_cast<int64_t>(bytes);
}

void ShardWriter::align() {
  static constexpr char kZeros[kCheckpointAlignment] = {};
  const int64_t over = index_.shards[0].bytes % kCheckpointAlignment;
  if (over > 0) append(kZeros, static_cast<size_t>(kCheckpointAlignment - over));
}

void ShardWriter::add(const CheckpointEntry& entry, const Tensor& data) {
  const auto& [name, dtype, shape] = entry.tensor;
  const Piece& piece = entry.piece;
  VIADUCT_CHECK(ShapeError, is_inside(piece.box, shape), "checkpoint: box {} of \"{}\" {}",
                to_string(piece.box), name, to_string(shape));
  VIADUCT_CHECK(
      ShapeError,
      piece.begin >= 0 && piece.begin <= piece.end && piece.end <= piece.box.size.elements(),
      "checkpoint: range [{}, {}) of box {} of \"{}\"", piece.begin, piece.end,
      to_string(piece.box), name);
  VIADUCT_CHECK(ShapeError,
                data.defined() && data.dtype() == dtype && data.elements() == piece.elements(),
                "checkpoint: \"{}\" given as {}, expected {} elements of {}", name, describe(data),
                piece.elements(), dtype_name(dtype));
  StoredTensor& tensor =
      index_.tensors.try_emplace(name, StoredTensor{dtype, shape, {}}).first->second;
  VIADUCT_CHECK(ShapeError, tensor.dtype == dtype && tensor.shape == shape,
                "checkpoint: \"{}\" is {} {} and {} {}", name, dtype_name(tensor.dtype),
                to_string(tensor.shape), dtype_name(dtype), to_string(shape));
  align();
  const int64_t offset = index_.shards[0].bytes;
  Hasher64 hasher;
  for_each_run(data, [&](const void* run, size_t bytes) {
    append(run, bytes);
    hasher.update(run, bytes);
  });
  tensor.pieces.push_back({piece, 0, offset, hasher.digest()});
}

void ShardWriter::add(const std::string& name, const Tensor& data) {
  add(whole_entry({name, data.dtype(), data.shape()}), data);
}

void ShardWriter::finish() {
  VIADUCT_CHECK(IoError, file_ != nullptr, "{}: finished twice", shard_name(rank_));
  file_->commit();
  file_.reset();
  index_.shards[0].checksum = sum_->hasher.digest();
  write_file_atomically(folder_ / part_name(rank_), format_checkpoint_index(index_));
}

CheckpointWriter::CheckpointWriter(const std::filesystem::path& save, int64_t step, int ranks,
                                   OldSteps* remover)
    : save_(save), folder_(checkpoint_temporary_folder(save, step)), ranks_(ranks) {
  create_folder(save);
  remove_leftovers(save, remover);
  std::error_code ignored;
  VIADUCT_CHECK(IoError, !std::filesystem::exists(folder_, ignored),
                "cannot save step {}: {} is in the way", step, folder_.string());
  create_folder(folder_);
  index_.step = step;
}

CheckpointWriter::~CheckpointWriter() {
  if (published_) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void CheckpointWriter::set_state(std::string json) {
  parse_json<nlohmann::json>(json, "checkpoint state");
  index_.state = std::move(json);
}

void CheckpointWriter::add_file(const std::string& name, std::string_view content) {
  index_json::check_side_file_name(name, "checkpoint file");
  VIADUCT_CHECK(
      IoError,
      name != kCheckpointIndexFile && name != kCheckpointPiecesFile && !name.starts_with("rank_"),
      "checkpoint file: the name {} is taken", name);
  for (const auto& file : index_.files)
    VIADUCT_CHECK(IoError, file.name != name, "checkpoint file: {} is given twice", name);
  create_folder((folder_ / name).parent_path());
  write_file_atomically(folder_ / name, content);
  index_.files.push_back({name, static_cast<int64_t>(content.size()), hash64(content)});
}

void CheckpointWriter::copy_file(const std::filesystem::path& folder, const std::string& name) {
  add_file(name, read_file(folder / name, kSideFileLimitBytes));
}

void CheckpointWriter::commit(int64_t keep_last, RunLock* lock, OldSteps* remover, bool is_best) {
  VIADUCT_CHECK(IoError, !published_, "{}: committed twice", folder_.string());
  CheckpointIndex index = index_;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto part = folder_ / part_name(rank);
    VIADUCT_CHECK(IoError, std::filesystem::exists(part),
                  "{}: the shard of rank {} of {} is missing", folder_.string(), rank, ranks_);
    merge_checkpoint_index(index, parse_checkpoint_index(read_file(part), part.string()),
                           part.string());
  }
  check_complete(index, folder_.string());
  const DirectoryTexts texts = format_directory(index);
  write_file_atomically(folder_ / kCheckpointPiecesFile, texts.pieces);
  write_file_atomically(folder_ / kCheckpointIndexFile, texts.index);
  for (int rank = 0; rank < ranks_; ++rank) {
    std::error_code ignored;
    std::filesystem::remove(folder_ / part_name(rank), ignored);
  }
  sync_folder(folder_);

  const auto ask = [&] {
    if (lock != nullptr) lock->check();
  };
  ask();
  std::vector<std::filesystem::path> hidden = publish_step(folder_, save_, index.step);
  published_ = true;
  ask();
  write_latest(save_, index.step);
  ask();
  if (is_best) write_best(save_, index.step);
  OldSteps now;
  OldSteps& old = remover != nullptr ? *remover : now;
  old.remove(std::move(hidden));
  try {
    HiddenSteps steps = hide_old_steps(save_, keep_last);
    // The checkpoint is complete; an old one that remains costs only space.
    for (const std::string& reason : steps.stuck)
      log_warning("an old checkpoint stays: {}", reason);
    old.remove(std::move(steps.folders));
  } catch (const IoError& error) {
    log_warning("old checkpoints stay: {}", error.what());
  }
}

}  // namespace viaduct
