#pragma once
// A source of named tensors: a safetensors file, a Hugging Face folder or a checkpoint. A reader of
// models uses all of them through this interface, one tensor at a time.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "tensor/gguf_types.h"
#include "tensor/tensor.h"

namespace viaduct {

/// Description of a stored tensor, known without reading it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  /// Bytes of all elements.
  int64_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// Every tensor, in the order of storage (deterministic for a given source).
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  /// The tensor `name`, contiguous, in host memory that may be read-only (a mapped file): never
  /// write to it. It may outlive the source. IoError if there is no such tensor or its bytes are
  /// damaged.
  virtual Tensor tensor(const std::string& name) const = 0;
  /// Copies the elements of a piece of `name`, dense and in the stored format, to `destination`;
  /// reads no more than needed. ShapeError if the piece is not inside the tensor, IoError as
  /// `tensor`.
  virtual void read_into(const std::string& name, const Piece& piece, std::byte* destination) const;
  /// The type of the quantized blocks that a matrix is stored in, as GGUF files have them; nothing
  /// if it is stored otherwise. Their values are those of `tensor`.
  virtual std::optional<GgufTensorType> block_type(const std::string& name) const {
    static_cast<void>(name);
    return std::nullopt;
  }
  /// Copies such blocks to `destination`: those of the columns [column, column + columns), whole
  /// ones, of a row of W [out, in], as products read it, whatever the tensor's own order; call
  /// `check_read` afterwards. ShapeError if there are none.
  virtual void read_blocks(const std::string& name, int64_t row, int64_t column, int64_t columns,
                           std::byte* destination) const;
  /// To be called after using views returned by `tensor`: IoError if their file could not be read,
  /// or is shorter than when it was opened; the bytes used were then not the stored ones. Pages of
  /// the file that were read leave the process, and come back where a view is read again.
  virtual void check_read() const {}
  /// For messages: path of the file or folder.
  virtual std::string where() const = 0;

  /// dtype and shape of `name`, null if there is no such tensor; valid as long as the source.
  virtual const TensorInfo* find(const std::string& name) const = 0;
  bool contains(const std::string& name) const { return find(name) != nullptr; }

 protected:
  /// ShapeError unless the piece is inside a tensor `name` of `shape`.
  void check_inside(const std::string& name, const Shape& shape, const Piece& piece) const;
  /// Throws IoError: no tensor `name`, with the nearest existing name.
  [[noreturn]] void fail_missing(const std::string& name) const;
};

}  // namespace viaduct
