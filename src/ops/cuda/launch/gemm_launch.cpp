// Launches of products: quantized operands in the library's order, the product, and its epilogue as
// the kernels of the ops themselves.

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/product_operands.h"
#include "ops/cuda/launch/activation_rows.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/launch/produced_rows.h"
#include "ops/cuda/launch/product_library.h"
#include "ops/cuda/product_layout.h"
#include "tensor/nvfp4.h"

namespace viaduct::cuda {
namespace {

/// One launch of `gemm`.
class Product {
 public:
  Product(OpContext& context, const ProductLayout& layout, const GemmArgs& args, void* workspace)
      : layout_(layout),
        args_(args),
        workspace_(static_cast<char*>(workspace)),
        stream_(stream_of(context)) {}

  void order_operand(const LibraryOperand& operand, const Operand& from, bool contracted_last);
  void order_operands();
  void multiply(ProductLibrary& library);
  /// c from the product's own place, or from the product without its bias.
  void finish();
  /// The product as dense rows.
  Rows product() const;

 private:
  void* at(int64_t offset) const { return workspace_ + offset; }
  const void* values_of(const LibraryOperand& operand, const Operand& from) const {
    return operand.copied ? at(operand.values_at) : from.values().raw();
  }
  const void* scales_of(const LibraryOperand& operand, const Operand& from) const {
    return operand.scales_bytes > 0 ? at(operand.scales_at) : from.scales().raw();
  }
  void run(Elementwise kind, const Rows& a, const Rows& b, const Rows& out,
           int64_t rows_of_b = 1) const {
    ElementwiseRows rows{kind, a, b, out, layout_.rows, layout_.columns};
    rows.rows_of_b = rows_of_b;
    elementwise(rows, stream_);
  }

  const ProductLayout& layout_;
  const GemmArgs& args_;
  char* workspace_;
  Stream stream_;
};

void Product::order_operand(const LibraryOperand& operand, const Operand& from,
                            bool contracted_last) {
  const int kept_dim = contracted_last ? 0 : 1;
  const int64_t kept = from.dim(kept_dim), contracted = from.dim(1 - kept_dim);
  if (operand.copied) {
    const bool halves = operand.format == DType::e2m1x2;
    const int64_t row = from.values().stride(0) * (halves ? 2 : 1);
    order_values(
        {static_cast<const uint8_t*>(from.values().raw()),
         static_cast<uint8_t*>(at(operand.values_at)), halves, kept, contracted,
         contracted_last ? row : 1, contracted_last ? 1 : row, operand.kept, layout_.contracted},
        stream_);
  }
  if (operand.scales_bytes == 0) return;
  // Squares of weights have the same scales whichever dim a product contracts.
  const ScaleForm& form = *from.form().scales;
  const bool same = (from.form().orientation == Orientation::row_wise) == contracted_last;
  const int64_t line = from.scales().stride(0);
  OperandScales scales;
  scales.from = from.scales().raw(), scales.to = at(operand.scales_at);
  scales.kept = kept, scales.contracted = contracted;
  scales.kept_stride = same ? line : 1, scales.contracted_stride = same ? 1 : line;
  scales.kept_group = same ? form.group.kept : form.group.contracted;
  scales.contracted_group = same ? form.group.contracted : form.group.kept;
  scales.rows = operand.scale_rows, scales.columns = operand.scale_columns;
  scales.wide = form.dtype == DType::f32;
  switch (operand.scales) {
    case LibraryScales::lines_128:
      scales.order = ScaleOrder::rows_last, scales.column_elements = 128;
      break;
    case LibraryScales::squares_128:
      scales.order = ScaleOrder::columns_last;
      scales.row_elements = scales.column_elements = 128;
      break;
    case LibraryScales::lines_32:
      scales.order = ScaleOrder::tiles, scales.column_elements = 32;
      scales.powers = scales.wide;
      break;
    default:
      scales.order = ScaleOrder::tiles, scales.column_elements = kNvfp4Group;
      break;
  }
  order_scales(scales, stream_);
}

void Product::order_operands() {
  order_operand(layout_.a, args_.a, args_.form != GemmForm::weight_gradient);
  order_operand(layout_.b, args_.b, args_.form == GemmForm::forward);
  if (!layout_.device_factor) return;
  const bool adds = args_.mode == WriteMode::accumulate && !layout_.own_place;
  product_factor(args_.a.matrix_scale().data<float>(), args_.b.matrix_scale().data<float>(),
                 adds ? 1.0f : 0.0f, static_cast<float*>(at(layout_.factor_at)), stream_);
}

Rows Product::product() const {
  if (!layout_.own_place) return rows_of("gemm", args_.c);
  Rows rows{at(layout_.product_at), format_of("gemm", layout_.place)};
  rows.strides[0] = layout_.columns;
  return rows;
}

void Product::multiply(ProductLibrary& library) {
  const Rows to = product();
  const bool adds = args_.mode == WriteMode::accumulate && !layout_.own_place;
  if (layout_.contracted == 0) {
    if (!adds) run(Elementwise::fill, {}, {}, to);
    return;
  }
  ProductMemory memory{values_of(layout_.a, args_.a), values_of(layout_.b, args_.b), to.data};
  if (layout_.a.scales != LibraryScales::none) {
    memory.a_scales = scales_of(layout_.a, args_.a);
    memory.b_scales = scales_of(layout_.b, args_.b);
  }
  if (layout_.library_bias) memory.bias = args_.bias.raw();
  if (layout_.device_factor) memory.factor = static_cast<const float*>(at(layout_.factor_at));
  memory.workspace = workspace_;
  const ProductAlignments alignments{alignment_of(memory.a), alignment_of(memory.b),
                                     alignment_of(memory.d)};
  library.multiply(*product_kind(layout_, args_, alignments), memory, stream_);
}

void Product::finish() {
  const Rows c = rows_of("gemm", args_.c), from = product();
  if (args_.bias && !layout_.library_bias) {
    run(Elementwise::add, from, rows_of("gemm", args_.bias), c, layout_.rows);
  } else if (layout_.own_place) {
    const bool adds = args_.mode == WriteMode::accumulate;
    run(adds ? Elementwise::accumulate : Elementwise::copy, from, {}, c);
  }
}

/// The op that the epilogue stands for, on the rounded product.
void run_epilogue(const ProductLayout& layout, const GemmArgs& args, const Rows& product,
                  void* workspace, Stream stream) {
  constexpr std::string_view op = "gemm epilogue";
  const GemmEpilogue& epilogue = args.epilogue;
  const Rows c = rows_of(op, args.c);
  if (epilogue.residual)
    return elementwise(
        {Elementwise::add, rows_of(op, epilogue.residual), c, c, layout.rows, layout.columns},
        stream);
  ActivationRows rows = activation_rows(epilogue.activation, epilogue.gated, {});
  rows.rows = layout.rows;
  if (epilogue.raised) {
    rows.in = rows_of(op, epilogue.raised), rows.out = product, rows.d_in = c;
    rows.width = layout.columns;
    return activation_backward(rows, stream);
  }
  rows.in = c, rows.out = rows_of(op, epilogue.activated);
  rows.width = epilogue.activated.dim(1);
  rows.forms = produced_rows(epilogue.forms, workspace);
  activation_forward(rows, stream);
}

void launch_gemm(OpContext& context, const Choice& choice, const GemmArgs& args, void* workspace) {
  const auto& layout = *static_cast<const ProductLayout*>(choice.plan.get());
  Product product(context, layout, args, workspace);
  const auto end = [&] {
    run_epilogue(layout, args, product.product(), static_cast<char*>(workspace) + layout.forms_at,
                 stream_of(context));
  };
  if (layout.rows == 0 || layout.columns == 0) {
    if (args.epilogue.forms.any()) end();  // nothing has a largest magnitude, too
    return;
  }
  if (layout.contracted > 0) product.order_operands();
  product.multiply(product_library(context));
  if (!args.epilogue.raised) product.finish();
  if (args.epilogue.any()) end();
}

}  // namespace

void add_gemm_launches(OpTable& table) {
  table.gemm.launch = launch_gemm;
}

}  // namespace viaduct::cuda
