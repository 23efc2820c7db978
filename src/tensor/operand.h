#pragma once
// `Operand`: a matrix as a product reads it. It may be the matrix's own rows, what a backend made
// of them (tiles), or quantized values with scales. Who makes a form, and who reads it, is the
// business of backends (ops/gemm.h); here is what all of them have in common: sizes, bytes, slices.

#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace viaduct {

/// Which dim of the matrix [R, C] a product contracts. What a form keeps together (a tile, the
/// elements of a scale) lies along that dim.
enum class Orientation {
  row_wise,     // C
  column_wise,  // R
};

/// Elements along the dim that the product keeps × along the one that it contracts.
struct OperandExtent {
  int64_t kept = 1, contracted = 1;
  bool operator==(const OperandExtent&) const = default;
};

/// One scale for the whole matrix.
inline constexpr OperandExtent kWholeMatrix{0, 0};

/// An element of the matrix is its value times the scale of its group.
struct ScaleForm {
  DType dtype = DType::f32;
  OperandExtent group = kWholeMatrix;
  bool operator==(const ScaleForm&) const = default;
};

/// Orders of values that are no backend's: those of the matrix [R, C], and [kept, contracted],
/// which is transposed where the form is column-wise.
inline constexpr std::string_view kRowMajor = "row-major", kContractedLast = "contracted-last";

/// How a matrix is stored.
struct OperandForm {
  /// Order of the values. Another name than the two above is a backend's, which alone knows the
  /// order inside of a tile: values are [tiles along kept, tiles along contracted, elements of a
  /// tile]. A string literal.
  std::string_view layout = kRowMajor;
  Orientation orientation = Orientation::row_wise;
  OperandExtent tile = {};  // of a backend's layout
  /// Format of the values; none: the matrix's own.
  std::optional<DType> element = {};
  std::optional<ScaleForm> scales = {};

  bool operator==(const OperandForm&) const = default;
  /// The tensor itself.
  bool plain() const { return layout == kRowMajor && !element && !scales; }
  /// Whether the shape of the values tells that of the matrix. Tiles are padded.
  bool shows_shape() const { return layout == kRowMajor || layout == kContractedLast; }
};

/// "row-major", "bf16_tiles of 16x32 row-wise", "e4m3 row-major column-wise, e8m0 scales of 1x32".
std::string describe(const OperandForm& form);

/// Shapes of the values and the scales of a matrix [R, C] in a form. Scales are [groups along kept,
/// groups along contracted]; a group at the edge may be cut off.
Shape values_shape(const OperandForm& form, const Shape& matrix);
Shape scales_shape(const OperandForm& form, const Shape& matrix);

/// A value; views of values and scales. Undefined: "not there", as a Tensor.
class Operand {
 public:
  Operand() = default;
  /// The matrix itself; any rank, for the contract that it is given to will check it.
  Operand(const Tensor& matrix)  // NOLINT: implicit, for most operands are tensors
      : values_(matrix), dtype_(matrix.dtype()), shape_(matrix.shape()) {}
  /// A matrix [R, C] of `dtype` in a form. ShapeError unless values and scales (undefined if the
  /// form has none) have its formats and shapes.
  Operand(const OperandForm& form, DType dtype, const Shape& shape, Tensor values, Tensor scales);

  bool defined() const { return values_.defined(); }
  explicit operator bool() const { return defined(); }
  const OperandForm& form() const { return form_; }
  const Tensor& values() const { return values_; }
  const Tensor& scales() const { return scales_; }
  /// Of the matrix: its format before it was brought into the form, and its sizes.
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int dim) const { return shape_.dim(dim); }
  /// Bytes of values and scales.
  int64_t bytes() const { return values_.bytes() + (scales_ ? scales_.bytes() : 0); }
  /// The matrix itself; ShapeError if the form is not plain.
  const Tensor& tensor() const;

  /// The rows (dim 0) or columns (dim 1) [begin, begin + count), which begin with a tile and with a
  /// group of a scale; of the contracted dim they end with one too, or with the matrix. ShapeError
  /// otherwise.
  Operand slice(int dim, int64_t begin, int64_t count) const;

 private:
  Tensor values_, scales_;
  OperandForm form_;
  DType dtype_ = DType::f32;
  Shape shape_;
};

/// "bf16 [64, 512]", "bf16 [64, 512] as bf16_tiles of 16x32 row-wise", "nothing" if undefined.
std::string describe(const Operand& operand);

}  // namespace viaduct
