#include "ops/cuda/product_layout.h"

#include "base/error.h"
#include "ops/cuda/produced_choose.h"
#include "ops/cuda/regions.h"
#include "tensor/nvfp4.h"

namespace viaduct::cuda {
namespace {

/// Bytes at whose multiples rows of narrow operands begin.
constexpr int64_t kRowBytes = 16;

/// Places in the workspace after the library's own.
class Regions {
 public:
  int64_t take(int64_t bytes) { return take_region(end_, bytes); }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = kProductWorkspace;
};

/// Elements that a row of a narrow operand is padded to: 16 bytes, and whole groups of 32.
int64_t contracted_multiple(const OperandForm& form) {
  if (form.element == DType::e2m1x2) return 2 * kRowBytes;
  return form.scales->dtype == DType::e8m0 ? 32 : kRowBytes;
}

LibraryScales scales_of(const OperandForm& form, CudaTarget target) {
  if (!form.scales) return LibraryScales::none;
  if (has_one_scale(form)) return LibraryScales::matrix;
  if (form.scales->dtype == DType::e4m3) return LibraryScales::lines_16;
  if (form.scales->dtype == DType::e8m0 || target == CudaTarget::sm_100a)
    return LibraryScales::lines_32;
  return form.scales->group.kept == 1 ? LibraryScales::lines_128 : LibraryScales::squares_128;
}

/// Sizes and bytes of scales in the library's order.
void place_scales(LibraryOperand& operand, int64_t contracted, Regions& regions) {
  switch (operand.scales) {
    case LibraryScales::none:
    case LibraryScales::matrix:
      return;
    case LibraryScales::lines_128:
      operand.scale_rows = operand.kept, operand.scale_columns = pieces_of(contracted, 128);
      break;
    case LibraryScales::squares_128:
      operand.scale_rows = pieces_of(operand.kept, 128);
      operand.scale_columns = rounded_up(pieces_of(contracted, 128), 4);
      break;
    case LibraryScales::lines_32:
    case LibraryScales::lines_16:
      operand.scale_rows = rounded_up(operand.kept, 128);
      operand.scale_columns = rounded_up(
          pieces_of(contracted, operand.scales == LibraryScales::lines_32 ? 32 : kNvfp4Group), 4);
      break;
  }
  const bool bytes =
      operand.scales == LibraryScales::lines_32 || operand.scales == LibraryScales::lines_16;
  operand.scales_bytes = operand.scale_rows * operand.scale_columns * (bytes ? 1 : 4);
  operand.scales_at = regions.take(operand.scales_bytes);
}

/// A quantized operand. `contracted` is padded, `kept` may be.
LibraryOperand narrow_operand(const Operand& from, bool contracted_last, int64_t kept,
                              int64_t contracted, CudaTarget target, Regions& regions) {
  const OperandForm& form = from.form();
  LibraryOperand operand{*form.element, kept};
  operand.scales = scales_of(form, target);
  const int64_t packed = form.element == DType::e2m1x2 ? 2 : 1;
  const int64_t own_kept = from.dim(contracted_last ? 0 : 1);
  const int64_t own_contracted = from.dim(contracted_last ? 1 : 0);
  // A slice of a matrix may begin anywhere.
  const bool dense = from.values().is_contiguous() && from.dim(1) % (packed * kRowBytes) == 0;
  const bool both_orders = target == CudaTarget::sm_100a && packed == 1;
  operand.copied = !dense || own_kept != kept || own_contracted != contracted ||
                   !(contracted_last || both_orders);
  operand.contracted_last = contracted_last || operand.copied;
  operand.stride = operand.copied ? contracted : from.dim(1);
  if (operand.copied) {
    operand.values_bytes = kept * contracted / packed;
    operand.values_at = regions.take(operand.values_bytes);
  }
  place_scales(operand, contracted, regions);
  return operand;
}

LibraryOperand plain_operand(const Operand& from, bool contracted_last) {
  LibraryOperand operand{from.dtype(), from.dim(contracted_last ? 0 : 1)};
  operand.contracted_last = contracted_last;
  operand.stride = std::max(from.values().stride(0), from.dim(1));
  return operand;
}

void count_copies(ProductLayout& layout, const LibraryOperand& operand, const Operand& from) {
  if (operand.copied) {
    ++layout.launches;
    layout.bytes_read += from.values().bytes();
    layout.bytes_written += operand.values_bytes;
  }
  if (operand.scales_bytes > 0) {
    ++layout.launches;
    layout.bytes_read += from.scales().bytes();
    layout.bytes_written += operand.scales_bytes;
  }
}

bool is_narrow(const Operand& operand) {
  return operand.form().element.has_value();
}

}  // namespace

std::string missing_products(const Quantization& quantization, CudaTarget target) {
  const Scaling scaling = quantization.scaling;
  if (scaling == Scaling::none || target == CudaTarget::sm_100a) return "";
  const std::string_view name = cuda_target_name(target);
  if (target == CudaTarget::sm_80) {
    return fmt::format(
        "cuda:{} has no products of quantized operands; sm_90a has them with one scale for a "
        "matrix and in blocks of 128, sm_100a also MXFP8 and NVFP4",
        name);
  }
  if (scaling == Scaling::tensor) return "";
  if (target != CudaTarget::sm_90a) {
    return fmt::format(
        "cuda:{} has products of quantized operands with one scale for a matrix alone; sm_90a has "
        "them in blocks of 128 too, sm_100a also MXFP8 and NVFP4",
        name);
  }
  if (scaling == Scaling::blocks) return "";
  const std::string_view recipe = scaling == Scaling::mx ? "MXFP8" : "NVFP4";
  return fmt::format(
      "cuda:{} has no products of {} operands; it has FP8 with one scale for a matrix and in "
      "blocks of 128, sm_100a has {} too",
      name, recipe, recipe);
}

void check_quantization(const Quantization& quantization, CudaTarget target) {
  const std::string missing = missing_products(quantization, target);
  VIADUCT_CHECK(DeviceError, missing.empty(), "gemm: {}", missing);
}

ProductLayout product_layout(const GemmArgs& args, CudaTarget target) {
  const bool a_last = args.form != GemmForm::weight_gradient;
  const bool b_last = args.form == GemmForm::forward;
  ProductLayout layout;
  Regions regions;
  layout.rows = args.a.dim(a_last ? 0 : 1);
  layout.columns = args.b.dim(b_last ? 0 : 1);
  layout.contracted = args.a.dim(a_last ? 1 : 0);
  const bool narrow = is_narrow(args.a);
  int64_t rows = layout.rows;
  if (narrow) {
    check_quantization(args.quantization, target);
    VIADUCT_CHECK(DeviceError, layout.columns % kQuantizedColumns == 0,
                  "gemm: products of quantized operands on cuda:{} have a multiple of {} columns, "
                  "got {} as a product of {} and {}",
                  cuda_target_name(target), kQuantizedColumns, layout.columns, describe(args.a),
                  describe(args.b));
    layout.contracted = rounded_up(
        layout.contracted,
        std::max(contracted_multiple(args.a.form()),
                 scales_of(args.a.form(), target) == LibraryScales::lines_32 ? int64_t{32} : 1));
    if (scales_of(args.a.form(), target) == LibraryScales::lines_128) rows = rounded_up(rows, 4);
    layout.a = narrow_operand(args.a, a_last, rows, layout.contracted, target, regions);
    layout.b = narrow_operand(args.b, b_last, layout.columns, layout.contracted, target, regions);
    count_copies(layout, layout.a, args.a);
    count_copies(layout, layout.b, args.b);
    layout.device_factor = args.a.matrix_scale().defined();
    if (layout.device_factor) {
      layout.factor_at = regions.take(2 * dtype_bytes(DType::f32));
      ++layout.launches;
    }
  } else {
    layout.a = plain_operand(args.a, a_last), layout.b = plain_operand(args.b, b_last);
  }
  // The library reads a bias in the format of c, and beside FP8 none in FP32.
  layout.library_bias = args.bias && args.bias.dtype() == args.c.dtype() && rows == layout.rows &&
                        !(narrow && args.c.dtype() == DType::f32) && layout.contracted > 0;
  const bool own_bias = args.bias && !layout.library_bias;
  const bool raised = args.epilogue.raised.defined();
  const bool aligned = !narrow || (args.c.dim(0) <= 1 ||
                                   args.c.stride(0) * dtype_bytes(args.c.dtype()) % kRowBytes == 0);
  layout.own_place =
      raised || rows != layout.rows || !aligned || (own_bias && args.c.dtype() != DType::f32);
  if (layout.own_place) {
    layout.place = raised ? args.c.dtype() : DType::f32;
    const int64_t bytes = rows * layout.columns * dtype_bytes(layout.place);
    layout.product_at = regions.take(bytes);
    layout.bytes_written += bytes, layout.bytes_read += bytes;
    ++layout.launches;  // that reads it
  } else if (own_bias) {
    layout.bytes_read += args.c.bytes(), layout.bytes_written += args.c.bytes();
    ++layout.launches;
  }
  layout.forms_at = regions.take(forms_workspace(args.epilogue.forms));
  layout.workspace_bytes = regions.end();
  return layout;
}

}  // namespace viaduct::cuda
