#pragma once
// `Operand`: a matrix as a product reads it: the matrix's own rows, a backend's form of it (tiles),
// or quantized values with scales. Backends define which ops make and read a form (ops/gemm.h);
// here is what all forms have in common: sizes, bytes, slices.

#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace viaduct {

/// Which dim of the matrix [R, C] a product contracts. The elements of one tile or one scale group
/// lie along that dim.
enum class Orientation {
  row_wise,     // C
  column_wise,  // R
};

/// Elements along the kept dim × elements along the contracted dim.
struct OperandExtent {
  int64_t kept = 1, contracted = 1;
  bool operator==(const OperandExtent&) const = default;
};

/// One scale for the whole matrix.
inline constexpr OperandExtent kWholeMatrix{0, 0};

/// An element of the matrix is its value times the scale of its group, and with scales of e4m3
/// times the f32 scale of the whole matrix, which keeps them in E4M3's range (tensor/nvfp4.h).
struct ScaleForm {
  DType dtype = DType::f32;
  OperandExtent group = kWholeMatrix;
  bool operator==(const ScaleForm&) const = default;
};

/// Orders of values that belong to no backend: the matrix [R, C] itself, and [kept, contracted],
/// which is transposed if the form is column-wise.
inline constexpr std::string_view kRowMajor = "row-major", kContractedLast = "contracted-last";

/// How a matrix is stored.
struct OperandForm {
  /// Order of the values. Any name other than the two above is a backend's, and only that backend
  /// knows the order inside a tile: values are [tiles along kept, tiles along contracted, elements
  /// of a tile]. A string literal.
  std::string_view layout = kRowMajor;
  Orientation orientation = Orientation::row_wise;
  OperandExtent tile = {};  // for a backend's layout
  /// Format of the values; none: the matrix's own.
  std::optional<DType> element = {};
  std::optional<ScaleForm> scales = {};
  /// Each 16 elements along the contracted dim are multiplied by an orthogonal matrix, the same for
  /// both operands of a product, which does not change (tensor/hadamard.h).
  bool rotated = false;

  bool operator==(const OperandForm&) const = default;
  /// The tensor itself.
  bool plain() const { return layout == kRowMajor && !element && !scales; }
  /// Whether the shape of the values gives the shape of the matrix. Tiles are padded.
  bool shows_shape() const { return layout == kRowMajor || layout == kContractedLast; }
};

/// Whether one scale holds for the whole matrix.
inline bool has_one_scale(const OperandForm& form) {
  return form.scales && form.scales->group == kWholeMatrix;
}

/// Whether there is a scale of the whole matrix, alone or beside the scales of groups: it is made
/// from the matrix's largest magnitude.
inline bool has_matrix_scale(const OperandForm& form) {
  return has_one_scale(form) || (form.scales && form.scales->dtype == DType::e4m3);
}

/// "row-major", "bf16_tiles of 16x32 row-wise", "e4m3 row-major column-wise, e8m0 scales of 1x32".
std::string describe(const OperandForm& form);

/// Shapes of the values and the scales of a matrix [R, C] in a form. Values of e2m1x2 are half as
/// many along the last dim, which must be even. Scales are [groups along kept,
/// groups along contracted]; a group at the edge may be cut off.
Shape values_shape(const OperandForm& form, const Shape& matrix);
Shape scales_shape(const OperandForm& form, const Shape& matrix);
/// The matrix whose values in a form that shows its shape have this shape.
Shape matrix_shape(const OperandForm& form, const Shape& values);

/// A value; views of values and scales. An undefined operand means "absent", as for a Tensor.
class Operand {
 public:
  Operand() = default;
  /// The matrix itself, of any rank; the op's contract checks it.
  Operand(const Tensor& matrix)  // NOLINT: implicit, for most operands are tensors
      : values_(matrix), dtype_(matrix.dtype()), shape_(matrix.shape()) {}
  /// A matrix [R, C] of `dtype` in a form. ShapeError unless values, scales (undefined if the form
  /// has none) and matrix scale (f32 [1]; only beside scales of groups that need one) have its
  /// formats and shapes.
  Operand(const OperandForm& form, DType dtype, const Shape& shape, Tensor values, Tensor scales,
          Tensor matrix_scale = {});
  /// `count` matrices [R, C] in a form, each an operand of its own, as one of [count · R, C]: their
  /// values, scales and matrix scales are stored one after the other, along dim 0.
  static Operand stack(int64_t count, const OperandForm& form, DType dtype, const Shape& matrix,
                       Tensor values, Tensor scales, Tensor matrix_scale = {});
  /// 1, or how many operands are stacked. ShapeError if these are sliced.
  int64_t count() const { return count_; }
  /// One of a stack.
  Operand member(int64_t index) const;

  bool defined() const { return values_.defined(); }
  explicit operator bool() const { return defined(); }
  const OperandForm& form() const { return form_; }
  const Tensor& values() const { return values_; }
  const Tensor& scales() const { return scales_; }
  /// The scale of the whole matrix beside scales of groups, f32 [1]; else undefined.
  const Tensor& matrix_scale() const { return matrix_scale_; }
  /// The matrix's dtype before it was converted to the form, and its sizes.
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int dim) const { return shape_.dim(dim); }
  /// Bytes of values and scales.
  int64_t bytes() const {
    return values_.bytes() + (scales_ ? scales_.bytes() : 0) +
           (matrix_scale_ ? matrix_scale_.bytes() : 0);
  }
  /// The matrix itself; ShapeError if the form is not plain.
  const Tensor& tensor() const;

  /// The rows (dim 0) or columns (dim 1) [begin, begin + count). `begin` must be a boundary of
  /// tiles and of scale groups; along the contracted dim the end must be one too, or the end of the
  /// matrix. ShapeError otherwise.
  Operand slice(int dim, int64_t begin, int64_t count) const;

 private:
  Tensor values_, scales_, matrix_scale_;
  int64_t count_ = 1;
  OperandForm form_;
  DType dtype_ = DType::f32;
  Shape shape_;
};

/// "bf16 [64, 512]", "bf16 [64, 512] as bf16_tiles of 16x32 row-wise", "nothing" if undefined.
std::string describe(const Operand& operand);

}  // namespace viaduct
