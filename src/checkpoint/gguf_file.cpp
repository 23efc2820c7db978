#include "checkpoint/gguf_file.h"

#include <cstring>

#include "base/error.h"
#include "checkpoint/gguf_blocks.h"

namespace viaduct {
bool is_gguf(const std::filesystem::path& path) {
  return path.extension() == ".gguf";
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : GgufFile(map_storage(path), path.string()) {}

GgufFile GgufFile::from_memory(std::string content, std::string where) {
  auto text = std::make_shared<std::string>(std::move(content));
  const auto bytes = static_cast<int64_t>(text->size());
  return {{std::make_shared<Storage>(text->data(), bytes, [text](Storage&) {}), nullptr}, where};
}

GgufFile::GgufFile(MappedStorage storage, const std::string& where)
    : mapped_(std::move(storage)),
      head_(parse_gguf({static_cast<const char*>(mapped_.storage->data()),
                        static_cast<size_t>(mapped_.storage->bytes())},
                       where)) {
  check_read();
  for (const GgufTensor& tensor : head_.tensors) {
    index_.emplace(tensor.name, infos_.size());
    infos_.push_back({tensor.name, gguf_type(tensor.type).dtype, tensor.shape});
  }
}

void GgufFile::check_read() const {
  if (mapped_.file) mapped_.file->check();
}

const TensorInfo* GgufFile::find(const std::string& name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &infos_[at->second];
}

const std::byte* GgufFile::begin_of(const GgufTensor& tensor) const {
  return static_cast<const std::byte*>(mapped_.storage->data()) + head_.data_begin + tensor.offset;
}

Tensor GgufFile::tensor(const std::string& name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  const GgufTensor& stored = head_.tensors[at->second];
  if (gguf_type(stored.type).quantized()) {
    Tensor decoded = host_tensor(DType::f32, stored.shape);
    decode_gguf_elements(stored.type, begin_of(stored), 0, decoded.elements(),
                         decoded.data<float>());
    check_read();
    return decoded;
  }
  const Tensor view(mapped_.storage, infos_[at->second].dtype, stored.shape,
                    head_.data_begin + stored.offset);
  const auto address = reinterpret_cast<uintptr_t>(view.raw());
  if (address % static_cast<uintptr_t>(dtype_bytes(view.dtype())) == 0) return view;
  Tensor copy = host_tensor(view.dtype(), view.shape());
  std::memcpy(copy.raw(), view.raw(), static_cast<size_t>(view.bytes()));
  return copy;
}

void GgufFile::read_into(const std::string& name, const Piece& piece,
                         std::byte* destination) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  const GgufTensor& stored = head_.tensors[at->second];
  if (!gguf_type(stored.type).quantized()) return TensorSource::read_into(name, piece, destination);
  check_inside(name, stored.shape, piece);
  auto* to = reinterpret_cast<float*>(destination);
  for_each_row(piece, stored.shape, [&](int64_t begin, int64_t elements) {
    decode_gguf_elements(stored.type, begin_of(stored), begin, begin + elements, to);
    to += elements;
  });
  check_read();
}

}  // namespace viaduct
