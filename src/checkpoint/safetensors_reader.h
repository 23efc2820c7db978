#pragma once
// Safetensors files and Hugging Face folders of them as sources of tensors. Files are mapped: data
// are read only when used, and tensors are views of the mapping.

#include <filesystem>
#include <memory>
#include <unordered_map>

#include "checkpoint/mapped_storage.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

/// One file. Opening it validates the header (parse_safetensors_header); the tensors' bytes carry
/// no checksum in this format.
class SafetensorsFile : public TensorSource {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// A file that is in memory already; `where` names it in messages.
  static SafetensorsFile from_memory(std::string content, std::string where);

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  /// A view of the mapped file (read-only memory, kept alive by the view), or a copy if its address
  /// is not a multiple of the element size.
  Tensor tensor(const std::string& name) const override;
  void check_read() const override;
  std::string where() const override { return where_; }
  const TensorInfo* find(const std::string& name) const override;
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

 private:
  SafetensorsFile(MappedStorage storage, std::string where);

  MappedStorage mapped_;  // the whole file; no MappedFile if it is in memory
  std::string where_;
  SafetensorsHeader header_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, size_t> index_;
};

/// The weights of a Hugging Face folder: model.safetensors, or the shards that
/// model.safetensors.index.json lists. Opening it opens all shards; IoError for a missing shard, a
/// tensor that is listed and not in its shard, one in two shards, or one that is not listed.
class SafetensorsFolder : public TensorSource {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Tensor tensor(const std::string& name) const override;
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  void check_read() const override;
  std::string where() const override { return folder_.string(); }
  const TensorInfo* find(const std::string& name) const override;

 private:
  void add_shard(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> shards_;
  std::vector<TensorInfo> infos_;
  struct Place {
    size_t shard, info;
  };
  std::unordered_map<std::string, Place> index_;
};

/// True if the folder holds weights that SafetensorsFolder reads.
bool has_safetensors(const std::filesystem::path& folder);

/// Throws IoError unless `name`, which came from a file, is the plain name of a file: no folder,
/// neither "." nor "..".
void check_plain_file_name(const std::string& name, const std::string& where);

}  // namespace viaduct
