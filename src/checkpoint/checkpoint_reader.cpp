#include "checkpoint/checkpoint_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/strict_json.h"

namespace viaduct {
namespace {

std::string_view bytes_of(const Storage& storage) {
  return {static_cast<const char*>(storage.data()), static_cast<size_t>(storage.bytes())};
}

void check_size(const StoredFile& file, int64_t bytes, const std::filesystem::path& folder) {
  VIADUCT_CHECK(IoError, bytes == file.bytes, "{}: {} bytes, expected {} ({})",
                (folder / file.name).string(), bytes, file.bytes,
                bytes < file.bytes ? "truncated" : "longer than it was written");
}

void check_sum(const StoredFile& file, std::string_view content,
               const std::filesystem::path& folder) {
  const uint64_t sum = hash64(content);
  VIADUCT_CHECK(IoError, sum == file.checksum,
                "{}: checksum {:016x}, expected {:016x}: the file is damaged",
                (folder / file.name).string(), sum, file.checksum);
}

std::unique_ptr<CheckpointReader> open_step(const std::filesystem::path& save, int64_t step) {
  auto reader = std::make_unique<CheckpointReader>(save / step_folder_name(step));
  VIADUCT_CHECK(IoError, reader->step() == step, "{}: holds step {}", reader->where(),
                reader->step());
  return reader;
}

std::unique_ptr<CheckpointReader> open_newest_whole(const std::filesystem::path& save) {
  std::vector<int64_t> steps = saved_steps(save);
  std::string first_problem;
  const auto note = [&](const std::string& problem) {
    log_warning("{}", problem);
    if (first_problem.empty()) first_problem = problem;
  };
  try {
    const int64_t latest = latest_step(save);
    steps.erase(std::upper_bound(steps.begin(), steps.end(), latest), steps.end());
  } catch (const IoError& error) {
    note(error.what());
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      auto reader = open_step(save, *step);
      reader->verify();
      if (!first_problem.empty())
        log_warning("FALLING BACK to {}: newer checkpoints cannot be used", reader->where());
      return reader;
    } catch (const IoError& error) {
      note(error.what());
    }
  }
  fail<IoError>("{}: no whole checkpoint to fall back to (first problem: {})", save.string(),
                first_problem.empty() ? "no steps there" : first_problem);
}

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& folder) : folder_(folder) {
  const auto path = folder / kCheckpointIndexFile;
  index_ = parse_checkpoint_index(read_file(path), path.string());
  check_complete(index_, path.string());
  for (const auto& shard : index_.shards) {
    shards_.push_back(map_storage(folder / shard.name));
    check_size(shard, shards_.back().storage->bytes(), folder);
  }
  for (const auto& file : index_.files) {
    const MappedFile content(folder / file.name);
    check_size(file, static_cast<int64_t>(content.size()), folder);
    check_sum(file, content.text(), folder);
    content.check();
  }
  size_t pieces = 0;
  for (const auto& [name, tensor] : index_.tensors) {
    infos_.push_back({name, tensor.dtype, tensor.shape});
    first_piece_.emplace(name, pieces);
    pieces += tensor.pieces.size();
  }
  checked_ = std::make_unique<std::atomic<bool>[]>(pieces);
}

const TensorInfo* CheckpointReader::find(const std::string& name) const {
  const auto at = std::lower_bound(
      infos_.begin(), infos_.end(), name,
      [](const TensorInfo& info, const std::string& wanted) { return info.name < wanted; });
  return at != infos_.end() && at->name == name ? &*at : nullptr;
}

const StoredTensor& CheckpointReader::stored(const std::string& name) const {
  const auto at = index_.tensors.find(name);
  if (at == index_.tensors.end()) fail_missing(name);
  return at->second;
}

const std::byte* CheckpointReader::checked_bytes(const std::string& name,
                                                 const StoredTensor& tensor, size_t piece) const {
  const StoredPiece& stored = tensor.pieces[piece];
  const auto* data =
      static_cast<const std::byte*>(shards_[stored.shard].storage->data()) + stored.offset;
  std::atomic<bool>& checked = checked_[first_piece_.at(name) + piece];
  if (checked.load(std::memory_order_relaxed)) return data;
  const auto bytes = static_cast<size_t>(stored.piece.elements() * dtype_bytes(tensor.dtype));
  const uint64_t sum = hash64({reinterpret_cast<const char*>(data), bytes});
  // A file that became shorter is named as that.
  if (sum != stored.checksum) shards_[stored.shard].file->check();
  VIADUCT_CHECK(IoError, sum == stored.checksum,
                "{}: {} of tensor \"{}\" ({} bytes at {}): checksum {:016x}, expected {:016x}: the "
                "file is damaged",
                (folder_ / index_.shards[stored.shard].name).string(), to_string(stored.piece),
                shown_name(name), bytes, stored.offset, sum, stored.checksum);
  checked.store(true, std::memory_order_relaxed);
  return data;
}

Tensor CheckpointReader::tensor(const std::string& name) const {
  const StoredTensor& tensor = stored(name);
  const bool one_piece =
      tensor.pieces.size() == 1 && tensor.pieces[0].piece.box == whole_box(tensor.shape);
  if (!one_piece) return read(name, whole_box(tensor.shape));
  checked_bytes(name, tensor, 0);
  const StoredPiece& only = tensor.pieces[0];
  return Tensor(shards_[only.shard].storage, tensor.dtype, tensor.shape, only.offset);
}

void CheckpointReader::check_read() const {
  for (const MappedStorage& shard : shards_) shard.file->check();
}

Tensor CheckpointReader::read(const std::string& name, const Box& box) const {
  const StoredTensor& tensor = stored(name);
  VIADUCT_CHECK(ShapeError, is_inside(box, tensor.shape), "{}: box {} of tensor \"{}\" {}", where(),
                to_string(box), shown_name(name), to_string(tensor.shape));
  Tensor result = host_tensor(tensor.dtype, box.size);
  read_into(name, whole_piece(box), static_cast<std::byte*>(result.raw()));
  return result;
}

void CheckpointReader::read_into(const std::string& name, const Piece& piece,
                                 std::byte* destination) const {
  const StoredTensor& tensor = stored(name);
  check_inside(name, tensor.shape, piece);
  int64_t copied = 0;
  for (size_t i = 0; i < tensor.pieces.size() && copied < piece.elements(); ++i) {
    const StoredPiece& stored = tensor.pieces[i];
    const auto* data =
        static_cast<const std::byte*>(shards_[stored.shard].storage->data()) + stored.offset;
    const int64_t shared =
        copy_shared(stored.piece, data, piece, destination, dtype_bytes(tensor.dtype));
    // Only pieces that gave something need to be whole; nobody sees the copy if this one is not.
    if (shared > 0) checked_bytes(name, tensor, i);
    copied += shared;
    // The checksum may be of an earlier read.
    if (shards_[stored.shard].file->failed()) shards_[stored.shard].file->check();
  }
  // check_complete proved that every element is stored once.
  VIADUCT_CHECK(IoError, copied == piece.elements(), "{}: {} of tensor \"{}\": {} of {} elements",
                where(), to_string(piece), shown_name(name), copied, piece.elements());
}

void CheckpointReader::verify() const {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    const StoredFile& file = index_.shards[shard];
    const bool whole = hash64(bytes_of(*shards_[shard].storage)) == file.checksum;
    for (const auto& [name, tensor] : index_.tensors) {
      for (size_t i = 0; i < tensor.pieces.size(); ++i) {
        if (tensor.pieces[i].shard != shard) continue;
        // Of a damaged shard, the message names the tensor.
        if (!whole) checked_bytes(name, tensor, i);
        checked_[first_piece_.at(name) + i].store(true, std::memory_order_relaxed);
      }
    }
    if (!whole) shards_[shard].file->check();
    VIADUCT_CHECK(IoError, whole, "{}: its checksum does not fit: the file is damaged",
                  (folder_ / file.name).string());
  }
}

bool is_weight_name(const std::string& name) {
  return name.find('/') == std::string::npos;
}

CheckpointWeights::CheckpointWeights(const CheckpointReader& checkpoint) : checkpoint_(checkpoint) {
  for (const auto& info : checkpoint.tensors())
    if (is_weight_name(info.name)) infos_.push_back(info);
}

const TensorInfo* CheckpointWeights::find(const std::string& name) const {
  return is_weight_name(name) ? checkpoint_.find(name) : nullptr;
}

Tensor CheckpointWeights::tensor(const std::string& name) const {
  if (!is_weight_name(name)) fail_missing(name);
  return checkpoint_.tensor(name);
}

void CheckpointWeights::read_into(const std::string& name, const Piece& piece,
                                  std::byte* destination) const {
  if (!is_weight_name(name)) fail_missing(name);
  checkpoint_.read_into(name, piece, destination);
}

std::unique_ptr<CheckpointReader> open_checkpoint(const std::filesystem::path& folder,
                                                  const OpenCheckpointOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kCheckpointIndexFile, ignored))
    return std::make_unique<CheckpointReader>(folder);
  if (options.fall_back_to_previous) return open_newest_whole(folder);
  return open_step(folder, latest_step(folder));
}

}  // namespace viaduct
