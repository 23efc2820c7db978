#include "tensor/operand.h"

#include <utility>

#include "base/error.h"
#include "tensor/packing.h"

namespace viaduct {
namespace {

int64_t pieces(int64_t size, int64_t piece) {
  return piece == 0 ? 1 : (size + piece - 1) / piece;
}

/// The matrix's sizes in the order of an OperandExtent.
OperandExtent sizes_of(const OperandForm& form, const Shape& matrix) {
  VIADUCT_CHECK(ShapeError, matrix.rank() == 2, "operand as {}: expected a matrix, got {}",
                describe(form), to_string(matrix));
  const bool rows = form.orientation == Orientation::row_wise;
  return {matrix[rows ? 0 : 1], matrix[rows ? 1 : 0]};
}

std::string by(const OperandExtent& extent) {
  return fmt::format("{}x{}", extent.kept, extent.contracted);
}

/// Elements per value of the form, along the last dim of its values.
int64_t packing(const OperandForm& form) {
  return form.element ? elements_per_value(*form.element) : 1;
}

/// The elements [begin, begin + count) of dim `dim`, for a tensor whose dim counts pieces of
/// `piece` elements (0: one piece in total).
Tensor slice_pieces(const Tensor& tensor, int dim, int64_t piece, int64_t begin, int64_t count) {
  if (piece == 0) return tensor;
  return tensor.slice(dim, begin / piece, pieces(count, piece));
}

}  // namespace

std::string describe(const OperandForm& form) {
  if (form.plain()) return std::string(kRowMajor);
  std::string text;
  if (form.element) text = fmt::format("{} ", dtype_name(*form.element));
  text += form.layout;
  if (!form.shows_shape()) text += " of " + by(form.tile);
  text += form.orientation == Orientation::row_wise ? " row-wise" : " column-wise";
  if (form.rotated) text += " rotated";
  if (!form.scales) return text;
  const bool whole = form.scales->group == kWholeMatrix;
  return text + fmt::format(", {} scale{}", dtype_name(form.scales->dtype),
                            whole ? " of the whole" : "s of " + by(form.scales->group));
}

Shape values_shape(const OperandForm& form, const Shape& matrix) {
  const OperandExtent sizes = sizes_of(form, matrix);
  if (form.shows_shape()) {
    Shape shape = form.layout == kRowMajor ? matrix : Shape{sizes.kept, sizes.contracted};
    VIADUCT_CHECK(ShapeError, shape[1] % packing(form) == 0,
                  "operand as {}: two elements share a byte, got {} of them in a row",
                  describe(form), shape[1]);
    shape[1] /= packing(form);
    return shape;
  }
  return {pieces(sizes.kept, form.tile.kept), pieces(sizes.contracted, form.tile.contracted),
          form.tile.kept * form.tile.contracted};
}

Shape scales_shape(const OperandForm& form, const Shape& matrix) {
  const OperandExtent sizes = sizes_of(form, matrix);
  VIADUCT_CHECK(ShapeError, form.scales.has_value(), "operand as {}: it has no scales",
                describe(form));
  const OperandExtent& group = form.scales->group;
  return {pieces(sizes.kept, group.kept), pieces(sizes.contracted, group.contracted)};
}

Shape matrix_shape(const OperandForm& form, const Shape& values) {
  VIADUCT_CHECK(ShapeError, form.shows_shape() && values.rank() == 2,
                "operand as {}: values {} do not show the shape of a matrix", describe(form),
                to_string(values));
  const Shape stored{values[0], values[1] * packing(form)};
  const bool transposed =
      form.layout == kContractedLast && form.orientation == Orientation::column_wise;
  return transposed ? Shape{stored[1], stored[0]} : stored;
}

Operand::Operand(const OperandForm& form, DType dtype, const Shape& shape, Tensor values,
                 Tensor scales, Tensor matrix_scale)
    : values_(std::move(values)),
      scales_(std::move(scales)),
      matrix_scale_(std::move(matrix_scale)),
      form_(form),
      dtype_(dtype),
      shape_(shape) {
  const Shape stored = values_shape(form, shape);
  const DType element = form.element.value_or(dtype);
  VIADUCT_CHECK(
      ShapeError, values_.defined() && values_.shape() == stored && values_.dtype() == element,
      "operand {} {} as {}: expected values {} {}, got {}", dtype_name(dtype), to_string(shape),
      describe(form), dtype_name(element), to_string(stored), describe(values_));
  const bool beside = has_matrix_scale(form) && !has_one_scale(form);
  VIADUCT_CHECK(
      ShapeError,
      beside == matrix_scale_.defined() &&
          (!beside || (matrix_scale_.dtype() == DType::f32 && matrix_scale_.shape() == Shape{1})),
      "operand {} {} as {}: expected {}, got {}", dtype_name(dtype), to_string(shape),
      describe(form), beside ? "a matrix scale f32 [1]" : "no matrix scale",
      describe(matrix_scale_));
  if (!form.scales) {
    VIADUCT_CHECK(ShapeError, !scales_.defined(), "operand {} {} as {}: expected no scales, got {}",
                  dtype_name(dtype), to_string(shape), describe(form), describe(scales_));
    return;
  }
  const Shape groups = scales_shape(form, shape);
  VIADUCT_CHECK(
      ShapeError,
      scales_.defined() && scales_.shape() == groups && scales_.dtype() == form.scales->dtype,
      "operand {} {} as {}: expected scales {} {}, got {}", dtype_name(dtype), to_string(shape),
      describe(form), dtype_name(form.scales->dtype), to_string(groups), describe(scales_));
}

Operand Operand::stack(int64_t count, const OperandForm& form, DType dtype, const Shape& matrix,
                       Tensor values, Tensor scales, Tensor matrix_scale) {
  Operand all;
  all.values_ = std::move(values);
  all.scales_ = std::move(scales);
  all.matrix_scale_ = std::move(matrix_scale);
  all.form_ = form;
  all.dtype_ = dtype;
  all.shape_ = matrix;
  all.shape_[0] *= count;
  all.count_ = count;
  const auto members = [&](const Tensor& part) {
    return !part.defined() || (part.dim(0) % count == 0 && part.is_contiguous());
  };
  VIADUCT_CHECK(
      ShapeError,
      count >= 1 && members(all.values_) && members(all.scales_) && members(all.matrix_scale_),
      "stack of {} operands {} {} as {}: expected contiguous parts that divide by it, "
      "got values {}, scales {}",
      count, dtype_name(dtype), to_string(matrix), describe(form), describe(all.values_),
      describe(all.scales_));
  (void)all.member(count - 1);  // checks its parts
  return all;
}

Operand Operand::member(int64_t index) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < count_, "operand {} of a stack of {}", index,
                count_);
  if (count_ == 1) return *this;
  const auto part = [&](const Tensor& all) {
    if (!all.defined()) return all;
    const int64_t each = all.dim(0) / count_;
    return all.slice(0, index * each, each);
  };
  Shape matrix = shape_;
  matrix[0] /= count_;
  return {form_, dtype_, matrix, part(values_), part(scales_), part(matrix_scale_)};
}

const Tensor& Operand::tensor() const {
  VIADUCT_CHECK(ShapeError, form_.plain(), "operand: expected a tensor, got {}", describe(*this));
  return values_;
}

Operand Operand::slice(int dim, int64_t begin, int64_t count) const {
  if (form_.plain()) return values_.slice(dim, begin, count);
  VIADUCT_CHECK(ShapeError, count_ == 1, "slice of {}: select one operand of the stack first",
                describe(*this));
  const int64_t size = shape_.dim(dim);
  const bool kept = (dim == 0) == (form_.orientation == Orientation::row_wise);
  const OperandExtent group = form_.scales ? form_.scales->group : kWholeMatrix;
  const auto side = [&](const OperandExtent& of) { return kept ? of.kept : of.contracted; };
  // The dim along which elements share a byte.
  const bool last = form_.layout == kContractedLast ? !kept : dim == 1;
  const int64_t packed = last ? packing(form_) : 1;
  const auto whole_pieces = [&](int64_t piece) {
    return piece == 0 ||
           (begin % piece == 0 && (kept || count % piece == 0 || begin + count == size));
  };
  VIADUCT_CHECK(ShapeError,
                begin >= 0 && count >= 0 && begin + count <= size &&
                    whole_pieces(side(form_.tile)) && whole_pieces(side(group)) &&
                    begin % packed == 0 && count % packed == 0,
                "slice [{}, {}) of dim {} of {}: out of range, or not of whole tiles and groups",
                begin, begin + count, dim, describe(*this));
  Operand part = *this;
  part.shape_[dim] = count;
  const int place = kept ? 0 : 1;
  part.values_ = slice_pieces(values_, form_.layout == kRowMajor ? dim : place,
                              form_.shows_shape() ? packed : side(form_.tile), begin, count);
  if (scales_) part.scales_ = slice_pieces(scales_, place, side(group), begin, count);
  return part;
}

std::string describe(const Operand& operand) {
  if (!operand || operand.form().plain()) return describe(operand.values());
  const std::string text = fmt::format("{} {} as {}", dtype_name(operand.dtype()),
                                       to_string(operand.shape()), describe(operand.form()));
  return operand.count() == 1 ? text : fmt::format("{} operands {}", operand.count(), text);
}

}  // namespace viaduct
