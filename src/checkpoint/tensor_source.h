#pragma once
// Where named tensors come from: a safetensors file, a Hugging Face folder, a checkpoint. A reader
// of models sees all of them as this, and takes one tensor at a time.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "tensor/tensor.h"

namespace viaduct {

/// What is known of a stored tensor without reading it.
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
  /// written to. It lives on its own, also after the source. IoError if there is no such tensor or
  /// its bytes are damaged.
  virtual Tensor tensor(const std::string& name) const = 0;
  /// The elements of a piece of `name`, densely and as they are stored, to `destination`; reads no
  /// more than it must. ShapeError if the piece is not inside the tensor, IoError as `tensor`.
  virtual void read_into(const std::string& name, const Piece& piece, std::byte* destination) const;
  /// After the bytes of views that `tensor` gave were used: IoError if their file could not be
  /// read, or is shorter than when it was opened; what was used is then not what was stored.
  virtual void check_read() const {}
  /// For messages: path of the file or folder.
  virtual std::string where() const = 0;

  /// dtype and shape of `name`, null if there is no such tensor; lives as long as the source.
  virtual const TensorInfo* find(const std::string& name) const = 0;
  bool contains(const std::string& name) const { return find(name) != nullptr; }

 protected:
  /// ShapeError unless the piece is inside a tensor `name` of `shape`.
  void check_inside(const std::string& name, const Shape& shape, const Piece& piece) const;
  /// Throws IoError: no tensor `name` here, with the nearest name there is.
  [[noreturn]] void fail_missing(const std::string& name) const;
};

}  // namespace viaduct
