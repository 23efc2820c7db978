#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/index_json.h"

namespace viaduct {
namespace {

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

/// Counts bytes read for checksums; the reporting rank logs progress every few seconds.
class VerifyProgress {
 public:
  VerifyProgress(std::string what, int64_t total_bytes, bool speaks)
      : what_(std::move(what)), total_bytes_(total_bytes), speaks_(speaks) {}
  void add(int64_t bytes) {
    done_bytes_ += bytes;
    const double now = steady_seconds();
    if (!speaks_ || now < next_) return;
    next_ = now + kPauseSeconds;
    log_info("{}: comparing checksums: {} of {}", what_, format_bytes(done_bytes_),
             format_bytes(total_bytes_));
  }

 private:
  static constexpr double kPauseSeconds = 10;
  std::string what_;
  int64_t total_bytes_, done_bytes_ = 0;
  bool speaks_;
  double next_ = steady_seconds() + kPauseSeconds;
};

uint64_t hash_of(const Storage& storage, VerifyProgress& progress) {
  constexpr int64_t kBlock = int64_t{64} << 20;
  Hasher64 hasher;
  const auto* data = static_cast<const std::byte*>(storage.data());
  for (int64_t at = 0; at < storage.bytes(); at += kBlock) {
    const int64_t bytes = std::min(kBlock, storage.bytes() - at);
    hasher.update(data + at, static_cast<size_t>(bytes));
    progress.add(bytes);
  }
  return hasher.digest();
}

}  // namespace

struct CheckpointReader::Stored {
  StoredTensor tensor;
  std::unique_ptr<std::atomic<bool>[]> checked;  // whether a piece's checksum was compared
};

struct CheckpointReader::Shard {
  StoredFile file;
  MappedStorage mapped;
  std::atomic<bool> whole{false};  // the checksum of the file was compared
};

CheckpointReader::CheckpointReader(const std::filesystem::path& folder, OpenShare share)
    : folder_(folder), share_(share) {
  const auto path = folder / kCheckpointIndexFile;
  directory_ = parse_directory(read_file(path), path.string());
  if (directory_.whole) {
    shards_ = static_cast<int64_t>(directory_.whole->shards.size());
    for (const auto& [name, tensor] : directory_.whole->tensors)
      infos_.push_back({name, tensor.dtype, tensor.shape});
  } else {
    shards_ = directory_.shards;
    for (const auto& [name, tensor] : directory_.tensors)
      infos_.push_back({name, tensor.dtype, tensor.shape});
    pieces_ = MappedFile(folder / kCheckpointPiecesFile);
    check_size(directory_.pieces, static_cast<int64_t>(pieces_.size()), folder);
  }
  if (share_.rank == 0) check_files();
  check_shard_sizes();
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::check_files() const {
  if (!directory_.whole) {
    check_sum(directory_.pieces, pieces_.text(), folder_);
    pieces_.check();
  }
  for (const auto& file : directory_.files) {
    const MappedFile content(folder_ / file.name);
    check_size(file, static_cast<int64_t>(content.size()), folder_);
    check_sum(file, content.text(), folder_);
    content.check();
  }
}

void CheckpointReader::check_shard_sizes() const {
  for (int64_t number = share_.rank; number < shards_; number += share_.ranks) {
    const StoredFile file = shard_file(number);
    std::error_code error;
    const auto bytes = std::filesystem::file_size(folder_ / file.name, error);
    VIADUCT_CHECK(IoError, !error, "cannot open {}: {}", (folder_ / file.name).string(),
                  error.message());
    check_size(file, static_cast<int64_t>(bytes), folder_);
  }
}

std::string CheckpointReader::pieces_where() const {
  return (folder_ / kCheckpointPiecesFile).string();
}

std::string_view CheckpointReader::line(const IndexLine& line, const std::string& where) const {
  try {
    return checked_line(pieces_.text(), line, where);
  } catch (const IoError&) {
    pieces_.check();  // reports a file that became shorter
    throw;
  }
}

StoredFile CheckpointReader::shard_file(int64_t shard) const {
  if (directory_.whole) return directory_.whole->shards[static_cast<size_t>(shard)];
  const std::lock_guard guard(mutex_);
  const int64_t number = shard / kShardsPerLine;
  auto at = shard_files_.find(number);
  if (at == shard_files_.end()) {
    const std::string where =
        fmt::format("{}: shards from {} on", pieces_where(), number * kShardsPerLine);
    auto files =
        parse_shards_line(line(directory_.shard_lines[static_cast<size_t>(number)], where), where);
    const int64_t expected = std::min(kShardsPerLine, shards_ - number * kShardsPerLine);
    VIADUCT_CHECK(IoError, static_cast<int64_t>(files.size()) == expected, "{}: {} of {} shards",
                  where, files.size(), expected);
    at = shard_files_.emplace(number, std::move(files)).first;
  }
  return at->second[static_cast<size_t>(shard % kShardsPerLine)];
}

const TensorInfo* CheckpointReader::find(const std::string& name) const {
  const auto at = std::lower_bound(
      infos_.begin(), infos_.end(), name,
      [](const TensorInfo& info, const std::string& wanted) { return info.name < wanted; });
  return at != infos_.end() && at->name == name ? &*at : nullptr;
}

CheckpointReader::Stored& CheckpointReader::stored(const std::string& name) const {
  if (!contains(name)) fail_missing(name);
  const std::lock_guard guard(mutex_);
  std::unique_ptr<Stored>& stored = stored_[name];
  if (!stored) {
    auto read = std::make_unique<Stored>();
    if (directory_.whole) {
      read->tensor = directory_.whole->tensors.at(name);
    } else {
      const DirectoryTensor& tensor = directory_.tensors.at(name);
      const std::string where = index_json::tensor_where(pieces_where(), name);
      read->tensor = parse_tensor_line(line(tensor.line, where), tensor, shards_, where);
    }
    read->checked = std::make_unique<std::atomic<bool>[]>(read->tensor.pieces.size());
    stored = std::move(read);
  }
  return *stored;
}

CheckpointReader::Shard& CheckpointReader::shard(size_t number) const {
  {
    const std::lock_guard guard(mutex_);
    if (const auto at = open_.find(number); at != open_.end()) return *at->second;
  }
  const StoredFile file = shard_file(static_cast<int64_t>(number));
  const std::lock_guard guard(mutex_);
  std::unique_ptr<Shard>& shard = open_[number];
  if (!shard) {
    auto opened = std::make_unique<Shard>();
    opened->file = file;
    opened->mapped = map_storage(folder_ / file.name);
    check_size(file, opened->mapped.storage->bytes(), folder_);
    shard = std::move(opened);
  }
  return *shard;
}

const std::byte* CheckpointReader::bytes_of(const std::string& name, Stored& tensor,
                                            size_t piece) const {
  const StoredPiece& stored = tensor.tensor.pieces[piece];
  const Shard& in = shard(stored.shard);
  index_json::check_in_shard(stored, tensor.tensor.dtype, in.file,
                             index_json::tensor_where(where(), name));
  return static_cast<const std::byte*>(in.mapped.storage->data()) + stored.offset;
}

const std::byte* CheckpointReader::checked_bytes(const std::string& name, Stored& tensor,
                                                 size_t piece) const {
  const StoredPiece& stored = tensor.tensor.pieces[piece];
  const std::byte* data = bytes_of(name, tensor, piece);
  const Shard& in = shard(stored.shard);
  std::atomic<bool>& checked = tensor.checked[piece];
  if (in.whole.load(std::memory_order_relaxed) || checked.load(std::memory_order_relaxed))
    return data;
  const auto bytes =
      static_cast<size_t>(stored.piece.elements() * dtype_bytes(tensor.tensor.dtype));
  const uint64_t sum = hash64({reinterpret_cast<const char*>(data), bytes});
  // Reports a file that became shorter.
  if (sum != stored.checksum) in.mapped.file->check();
  VIADUCT_CHECK(IoError, sum == stored.checksum,
                "{}: {} of tensor \"{}\" ({} bytes at {}): checksum {:016x}, expected {:016x}: the "
                "file is damaged",
                (folder_ / in.file.name).string(), to_string(stored.piece), shown_name(name), bytes,
                stored.offset, sum, stored.checksum);
  checked.store(true, std::memory_order_relaxed);
  return data;
}

Tensor CheckpointReader::tensor(const std::string& name) const {
  Stored& found = stored(name);
  const StoredTensor& tensor = found.tensor;
  const bool one_piece =
      tensor.pieces.size() == 1 && tensor.pieces[0].piece.box == whole_box(tensor.shape);
  if (!one_piece) return read(name, whole_box(tensor.shape));
  checked_bytes(name, found, 0);
  const StoredPiece& only = tensor.pieces[0];
  return Tensor(shard(only.shard).mapped.storage, tensor.dtype, tensor.shape, only.offset);
}

void CheckpointReader::check_read() const {
  const std::lock_guard guard(mutex_);
  for (const auto& [number, shard] : open_) shard->mapped.file->check();
}

Tensor CheckpointReader::read(const std::string& name, const Box& box) const {
  const StoredTensor& tensor = stored(name).tensor;
  VIADUCT_CHECK(ShapeError, is_inside(box, tensor.shape), "{}: box {} of tensor \"{}\" {}", where(),
                to_string(box), shown_name(name), to_string(tensor.shape));
  Tensor result = host_tensor(tensor.dtype, box.size);
  read_into(name, whole_piece(box), static_cast<std::byte*>(result.raw()));
  return result;
}

void CheckpointReader::read_into(const std::string& name, const Piece& piece,
                                 std::byte* destination) const {
  Stored& found = stored(name);
  const StoredTensor& tensor = found.tensor;
  check_inside(name, tensor.shape, piece);
  int64_t copied = 0;
  for (size_t i = 0; i < tensor.pieces.size() && copied < piece.elements(); ++i) {
    const StoredPiece& stored = tensor.pieces[i];
    // Only shards that contribute elements are opened, and only their pieces are verified.
    if (!share_elements(stored.piece, piece)) continue;
    const std::byte* data = bytes_of(name, found, i);
    const int64_t shared =
        copy_shared(stored.piece, data, piece, destination, dtype_bytes(tensor.dtype));
    // The copy is discarded if the piece is damaged.
    if (shared > 0) checked_bytes(name, found, i);
    copied += shared;
    // The checksum may stem from an earlier read.
    const MappedFile& file = *shard(stored.shard).mapped.file;
    if (file.failed()) file.check();
  }
  // parse_tensor_line proved that every element is stored once.
  VIADUCT_CHECK(IoError, copied == piece.elements(), "{}: {} of tensor \"{}\": {} of {} elements",
                where(), to_string(piece), shown_name(name), copied, piece.elements());
}

void CheckpointReader::explain_damage(size_t number) const {
  shard(number).mapped.file->check();
  // The message names the tensor.
  for (const TensorInfo& info : infos_) {
    Stored& tensor = stored(info.name);
    for (size_t i = 0; i < tensor.tensor.pieces.size(); ++i)
      if (tensor.tensor.pieces[i].shard == number) checked_bytes(info.name, tensor, i);
  }
  fail<IoError>("{}: its checksum does not match: the file is damaged",
                (folder_ / shard(number).file.name).string());
}

void CheckpointReader::verify() const {
  const auto of_share = [&](size_t i) {
    return i % static_cast<size_t>(share_.ranks) == static_cast<size_t>(share_.rank);
  };
  for (size_t i = 0; i < infos_.size(); ++i)
    if (of_share(i)) stored(infos_[i].name);
  int64_t total = 0;
  for (int64_t number = share_.rank; number < shards_; number += share_.ranks)
    total += shard_file(number).bytes;
  VerifyProgress progress(where(), total, share_.rank == 0);
  for (int64_t number = share_.rank; number < shards_; number += share_.ranks) {
    Shard& in = shard(static_cast<size_t>(number));
    if (hash_of(*in.mapped.storage, progress) != in.file.checksum)
      explain_damage(static_cast<size_t>(number));
    in.mapped.file->check();
    in.whole.store(true, std::memory_order_relaxed);
  }
}

CheckpointIndex CheckpointReader::index() const {
  if (directory_.whole) return *directory_.whole;
  CheckpointIndex index;
  index.step = step();
  index.files = files();
  index.state = state();
  for (int64_t number = 0; number < shards_; ++number) index.shards.push_back(shard_file(number));
  for (const TensorInfo& info : infos_) index.tensors.emplace(info.name, stored(info.name).tensor);
  return index;
}

int64_t CheckpointReader::opened_shards() const {
  const std::lock_guard guard(mutex_);
  return static_cast<int64_t>(open_.size());
}

int64_t CheckpointReader::parsed_lines() const {
  const std::lock_guard guard(mutex_);
  return static_cast<int64_t>(stored_.size() + shard_files_.size());
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

}  // namespace viaduct
