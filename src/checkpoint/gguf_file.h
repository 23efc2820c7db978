#pragma once
// A GGUF file as a source of tensors under its own names.

#include <filesystem>
#include <unordered_map>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/mapped_storage.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

/// True for paths that name GGUF files: they end in .gguf.
bool is_gguf(const std::filesystem::path& path);

/// The file is mapped; opening it validates its head (parse_gguf). Tensors of quantized types are
/// decoded to FP32 (gguf_blocks.h); others are views.
class GgufFile : public TensorSource {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  /// A file that is in memory already; `where` names it in messages.
  static GgufFile from_memory(std::string content, std::string where);

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Tensor tensor(const std::string& name) const override;
  /// Of quantized types decodes only the blocks of the piece.
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  std::optional<GgufTensorType> block_type(const std::string& name) const override;
  void read_blocks(const std::string& name, int64_t row, int64_t column, int64_t columns,
                   std::byte* destination) const override;
  void check_read() const override;
  std::string where() const override { return head_.keys.where(); }
  const TensorInfo* find(const std::string& name) const override;
  const GgufHead& head() const { return head_; }

 private:
  GgufFile(MappedStorage storage, const std::string& where);
  const std::byte* begin_of(const GgufTensor& tensor) const;

  MappedStorage mapped_;
  GgufHead head_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace viaduct
