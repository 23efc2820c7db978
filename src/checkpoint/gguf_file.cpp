#include "checkpoint/gguf_file.h"

#include <cstring>

#include "base/error.h"
#include "tensor/gguf_blocks.h"

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
  if (mapped_.file) check_and_give_back(*mapped_.file);
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

std::optional<GgufTensorType> GgufFile::block_type(const std::string& name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) fail_missing(name);
  const GgufTensor& stored = head_.tensors[at->second];
  const bool blocks = gguf_type(stored.type).quantized() && stored.shape.rank() == 2;
  return blocks ? std::optional(stored.type) : std::nullopt;
}

void GgufFile::read_blocks(const std::string& name, int64_t row, int64_t column, int64_t columns,
                           std::byte* destination) const {
  const auto type = block_type(name);
  const GgufTensor& stored = head_.tensors[index_.at(name)];
  const int64_t block = gguf_type(stored.type).block;
  VIADUCT_CHECK(ShapeError,
                type && row >= 0 && row < stored.shape[0] && column >= 0 && columns >= 0 &&
                    column + columns <= stored.shape[1] && column % block == 0 &&
                    columns % block == 0,
                "{}: row {}, columns {} to {} of \"{}\" {} are no whole blocks", where(), row,
                column, column + columns, name, to_string(stored.shape));
  const int64_t begin = gguf_bytes(stored.type, row * stored.shape[1] + column);
  std::memcpy(destination, begin_of(stored) + begin,
              static_cast<size_t>(gguf_bytes(stored.type, columns)));
}

}  // namespace viaduct
