// Launches of the products of experts.

#include "ops/cuda/kernels/grouped_gemm.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

GroupedForm form_of(GemmForm form) {
  switch (form) {
    case GemmForm::forward:
      return GroupedForm::forward;
    case GemmForm::data_gradient:
      return GroupedForm::data_gradient;
    case GemmForm::weight_gradient:
      break;
  }
  return GroupedForm::weight_gradient;
}

void launch_grouped(OpContext& context, const Choice&, const GroupedGemmArgs& args, void*) {
  constexpr std::string_view op = "grouped_gemm";
  VIADUCT_CHECK(DeviceError, expert_forms(args).a.plain(),
                "{}: {} has no kernel for quantized operands yet; it has f32, bf16 and f16", op,
                context.ops.traits.name);
  const Tensor& b = args.b.tensor();
  const Shape& weights = shape_of_weights(args);
  GroupedProduct product{form_of(args.form), format_of(op, args.a.dtype()),
                         format_of(op, args.c.dtype()), args.mode == WriteMode::accumulate};
  product.a = args.a.raw(), product.b = b.raw(), product.c = args.c.raw();
  product.a_stride = args.a.stride(0), product.b_stride = b.stride(0);
  product.c_stride = args.c.stride(0);
  product.offsets = args.offsets.data<int32_t>();
  product.experts = args.offsets.dim(0) - 1;
  product.rows = args.a.dim(0);
  product.n = weights[0] / product.experts, product.k = weights[1];
  grouped_gemm(product, stream_of(context));
}

}  // namespace

void add_grouped_gemm_launches(OpTable& table) {
  table.grouped_gemm.launch = launch_grouped;
}

}  // namespace viaduct::cuda
