#include "checkpoint/safetensors_reader.h"

#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kIndexLimitBytes = size_t{256} << 20;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The index's "weight_map": tensor name to file name.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const std::string where = path.string();
  const std::string text = read_file(path, kIndexLimitBytes);
  const auto json = parse_json<nlohmann::json>(text, where, {.depth = 8});
  VIADUCT_CHECK(IoError,
                json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
                "{}: no \"weight_map\" object", where);
  std::map<std::string, std::string> map;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    VIADUCT_CHECK(IoError, shard.is_string(), "{}: the file of \"{}\" is not a string", where,
                  shown_name(name));
    check_plain_file_name(shard.get<std::string>(), where);
    map.emplace(name, shard.get<std::string>());
  }
  return map;
}

}  // namespace

void check_plain_file_name(const std::string& name, const std::string& where) {
  const bool plain = !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  VIADUCT_CHECK(IoError, plain, "{}: \"{}\" is not the plain name of a file", where,
                shown_name(name));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : SafetensorsFile(map_storage(path), path.string()) {}

SafetensorsFile SafetensorsFile::from_memory(std::string content, std::string where) {
  auto text = std::make_shared<std::string>(std::move(content));
  const auto bytes = static_cast<int64_t>(text->size());
  return {{std::make_shared<Storage>(text->data(), bytes, [text](Storage&) {}), nullptr},
          std::move(where)};
}

SafetensorsFile::SafetensorsFile(MappedStorage storage, std::string where)
    : mapped_(std::move(storage)), where_(std::move(where)) {
  const std::string_view content(static_cast<const char*>(mapped_.storage->data()),
                                 static_cast<size_t>(mapped_.storage->bytes()));
  header_ = parse_safetensors_header(content, where_);
  check_read();
  for (const auto& entry : header_.entries) {
    index_.emplace(entry.info.name, infos_.size());
    infos_.push_back(entry.info);
  }
}

void SafetensorsFile::check_read() const {
  if (mapped_.file) check_and_give_back(*mapped_.file);
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &infos_[at->second];
}

Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  const SafetensorsEntry& entry = header_.entries[at->second];
  const int64_t offset = header_.data_offset + entry.begin;
  const Tensor view(mapped_.storage, entry.info.dtype, entry.info.shape, offset);
  const auto address = reinterpret_cast<uintptr_t>(view.raw());
  if (address % static_cast<uintptr_t>(dtype_bytes(view.dtype())) == 0) return view;
  Tensor copy = host_tensor(entry.info.dtype, entry.info.shape);
  std::memcpy(copy.raw(), view.raw(), static_cast<size_t>(view.bytes()));
  return copy;
}

bool has_safetensors(const std::filesystem::path& folder) {
  return is_there(folder / kSingle) || is_there(folder / kIndex);
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& folder) : folder_(folder) {
  // A complete single file wins over an index, as for Hugging Face's own reader.
  if (is_there(folder / kSingle)) {
    add_shard(folder / kSingle);
    return;
  }
  VIADUCT_CHECK(IoError, is_there(folder / kIndex), "{}: no weights: neither {} nor {} exists",
                folder.string(), kSingle, kIndex);
  const auto weight_map = read_weight_map(folder / kIndex);
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  for (const auto& file : files) {
    VIADUCT_CHECK(IoError, is_there(folder / file), "{}: shard {} is missing",
                  (folder / kIndex).string(), shown_name(file));
    const size_t first = infos_.size();
    add_shard(folder / file);
    for (size_t i = first; i < infos_.size(); ++i) {
      VIADUCT_CHECK(IoError, weight_map.contains(infos_[i].name),
                    "{}: tensor \"{}\" of shard {} is not listed", (folder / kIndex).string(),
                    shown_name(infos_[i].name), file);
    }
  }
  for (const auto& [name, file] : weight_map) {
    const auto at = index_.find(name);
    const bool there = at != index_.end() && shards_[at->second.shard].where() == folder / file;
    VIADUCT_CHECK(IoError, there, "{}: tensor \"{}\" is not in its shard {}",
                  (folder / kIndex).string(), shown_name(name), file);
  }
}

void SafetensorsFolder::add_shard(const std::filesystem::path& path) {
  shards_.emplace_back(path);
  for (const auto& info : shards_.back().tensors()) {
    const bool fresh = index_.emplace(info.name, Place{shards_.size() - 1, infos_.size()}).second;
    VIADUCT_CHECK(IoError, fresh, "{}: tensor \"{}\" is also in an earlier shard", path.string(),
                  shown_name(info.name));
    infos_.push_back(info);
  }
}

void SafetensorsFolder::read_into(const std::string& name, const Piece& piece,
                                  std::byte* destination) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  shards_[at->second.shard].read_into(name, piece, destination);
}

void SafetensorsFolder::check_read() const {
  for (const SafetensorsFile& shard : shards_) shard.check_read();
}

const TensorInfo* SafetensorsFolder::find(const std::string& name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &infos_[at->second.info];
}

Tensor SafetensorsFolder::tensor(const std::string& name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  return shards_[at->second.shard].tensor(name);
}

}  // namespace viaduct
