#include "data/index_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/md5.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kDescription = "description.txt", kChecksums = "checksums.json";

std::string hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

class MemorySink final : public IndexSink {
 public:
  void begin(const IndexShape& shape) override {
    finish();
    shape_ = shape;
    values_.reserve(static_cast<size_t>(shape.bytes()));
    open_ = true;
  }
  void write(const void* values, size_t bytes) override {
    const auto* from = static_cast<const std::byte*>(values);
    values_.insert(values_.end(), from, from + bytes);
  }
  std::vector<IndexArray> take() {
    finish();
    return std::move(arrays_);
  }

 private:
  void finish() {
    if (open_) arrays_.emplace_back(shape_, std::exchange(values_, {}));
    open_ = false;
  }

  IndexShape shape_;
  std::vector<std::byte> values_;
  bool open_ = false;
  std::vector<IndexArray> arrays_;
};

class FileSink final : public IndexSink {
 public:
  explicit FileSink(const IndexCacheEntry& entry) : entry_(entry) {}

  void begin(const IndexShape& shape) override {
    finish();
    const size_t i = hashes_.size();
    VIADUCT_CHECK(ShapeError,
                  i < entry_.names.size() && (entry_.shapes.empty() || shape == entry_.shapes[i]),
                  "{}: array {} is {}, which is not expected", entry_.kind, i, describe(shape));
    remove_unfinished(entry_.array_file(i));
    file_ = std::make_unique<OutputFile>(entry_.array_file(i));
    hasher_ = std::make_unique<Hasher64>();
    const std::string header = npy_header(shape);
    file_->write(header);
  }
  void write(const void* values, size_t bytes) override {
    file_->write(values, bytes);
    hasher_->update(values, bytes);
  }
  std::vector<uint64_t> take() {
    finish();
    return std::move(hashes_);
  }

 private:
  void finish() {
    if (!file_) return;
    file_->commit();
    hashes_.push_back(hasher_->digest());
    file_.reset();
  }

  const IndexCacheEntry& entry_;
  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<Hasher64> hasher_;
  std::vector<uint64_t> hashes_;
};

/// Why a cache is unusable; "" if it does not exist.
struct Unusable {
  std::string why;
};

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

ordered_json checksums_of(const IndexCacheEntry& entry) {
  const auto path = entry.file(kChecksums);
  if (!is_there(path)) {
    bool some = false;
    for (size_t i = 0; i < entry.names.size(); ++i) some |= is_there(entry.array_file(i));
    throw Unusable{some ? fmt::format("{} is missing: another program wrote the arrays, or a "
                                      "program was stopped while it wrote them",
                                      path.string())
                        : std::string()};
  }
  auto read = try_parse_json<ordered_json>(read_file(path, 1 << 20));
  const ordered_json checksums = read ? std::move(*read) : ordered_json();
  const bool whole = checksums.is_object() && checksums.contains("source") &&
                     checksums.contains("arrays") && checksums["arrays"].is_array() &&
                     checksums["arrays"].size() == entry.names.size();
  if (!whole) throw Unusable{fmt::format("{} is damaged", path.string())};
  if (checksums["source"] != hex(entry.source))
    throw Unusable{fmt::format("the data differ from those that {} was built from",
                               entry.array_file(0).string())};
  return checksums;
}

void check_description(const IndexCacheEntry& entry) {
  const auto path = entry.file(kDescription);
  if (!is_there(path)) throw Unusable{fmt::format("{} is missing", path.string())};
  if (read_file(path) != entry.description)
    throw Unusable{fmt::format("{} describes another order", path.string())};
}

/// The arrays of a cache after a check of every byte; throws Unusable or IoError.
std::vector<IndexArray> load_checked(const IndexCacheEntry& entry) {
  const ordered_json checksums = checksums_of(entry);
  check_description(entry);
  std::vector<IndexArray> arrays;
  for (size_t i = 0; i < entry.names.size(); ++i) {
    const std::string path = entry.array_file(i).string();
    arrays.push_back(IndexArray::map(path));
    const IndexArray& array = arrays.back();
    if (!entry.shapes.empty() && array.shape() != entry.shapes[i])
      throw Unusable{fmt::format("{} is {}, expected {}", path, describe(array.shape()),
                                 describe(entry.shapes[i]))};
    const uint64_t found = hash64(array.bytes());
    array.check_read();
    if (checksums["arrays"][i] != hex(found))
      throw Unusable{fmt::format("{} is damaged: its checksum does not match", path)};
  }
  return arrays;
}

/// Checks sizes only; throws Unusable or IoError.
void check_sizes(const IndexCacheEntry& entry) {
  checksums_of(entry);
  check_description(entry);
  for (size_t i = 0; i < entry.names.size(); ++i) {
    std::error_code error;
    const auto path = entry.array_file(i);
    const IndexShape shape = entry.shapes.empty() ? read_npy_shape(path) : entry.shapes[i];
    const auto expected = npy_header(shape).size() + static_cast<size_t>(shape.bytes());
    const auto found = std::filesystem::file_size(path, error);
    if (error || found != expected)
      throw Unusable{fmt::format("{} does not have {} bytes", path.string(), expected)};
  }
}

/// The result of `load`; if it throws, `why` has the reason.
template <class Load>
auto attempt(Load&& load, std::string& why) -> std::optional<decltype(load())> {
  try {
    return load();
  } catch (const Unusable& unusable) {
    why = unusable.why;
  } catch (const IoError& error) {
    why = error.what();
  }
  return std::nullopt;
}

void build_files(const IndexCacheEntry& entry, IndexBuild build) {
  // Old checksums must not remain beside new arrays.
  std::error_code ignored;
  std::filesystem::remove(entry.file(kChecksums), ignored);
  FileSink sink(entry);
  build(sink);
  ordered_json checksums{{"source", hex(entry.source)}, {"arrays", ordered_json::array()}};
  for (const uint64_t hash : sink.take()) checksums["arrays"].push_back(hex(hash));
  write_file_atomically(entry.file(kDescription), entry.description);
  write_file_atomically(entry.file(kChecksums), checksums.dump() + "\n");
}

/// Runs `load` until it works: now, behind the lock, or after `build`.
template <class Load>
auto load_or_build_by(const IndexCacheEntry& entry, IndexBuild build, Load&& load) {
  std::string why;
  if (auto loaded = attempt(load, why)) return std::move(*loaded);
  VIADUCT_CHECK(IoError, is_writable_folder(entry.folder), "cannot write into the folder {}",
                entry.folder.string());
  const FileLock lock(entry.file("lock"));
  if (auto loaded = attempt(load, why)) return std::move(*loaded);  // another process made it
  if (!why.empty()) log_warning("{}; rebuilding it", why);
  build_files(entry, build);
  auto loaded = attempt(load, why);
  VIADUCT_CHECK(IoError, loaded, "{}, although it was just written", why);
  return std::move(*loaded);
}

}  // namespace

std::filesystem::path IndexCacheEntry::file(std::string_view suffix) const {
  return folder / fmt::format("{}-{}-{}", md5_hex(description), kind, suffix);
}

std::vector<IndexArray> build_in_memory(IndexBuild build) {
  MemorySink sink;
  build(sink);
  return sink.take();
}

std::vector<IndexArray> load_or_build(const IndexCacheEntry& entry, IndexBuild build) {
  return load_or_build_by(entry, build, [&] { return load_checked(entry); });
}

void ensure_built(const IndexCacheEntry& entry, IndexBuild build) {
  load_or_build_by(entry, build, [&] { return check_sizes(entry), true; });
}

std::vector<IndexArray> load_trusted(const IndexCacheEntry& entry) {
  std::vector<IndexArray> arrays;
  for (size_t i = 0; i < entry.names.size(); ++i) {
    const auto path = entry.array_file(i);
    VIADUCT_CHECK(IoError, is_there(path),
                  "{} is missing: dataset.fast_cache_load=true makes no index; a run without it "
                  "does",
                  path.string());
    arrays.push_back(IndexArray::map(path));
  }
  return arrays;
}

bool is_writable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return !error && ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace viaduct
