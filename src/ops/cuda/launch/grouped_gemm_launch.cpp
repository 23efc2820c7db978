// Launches of the products of experts.

#include "ops/cuda/kernels/grouped_warpgroups.h"
#include "ops/cuda/launch/grouped_codes.h"
#include "ops/cuda/launch/launch_args.h"
#include "ops/cuda/warpgroup_products.h"

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

void launch_grouped(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                    void* workspace) {
  constexpr std::string_view op = "grouped_gemm";
  const Shape& weights = shape_of_weights(args);
  GroupedShape shape{form_of(args.form), format_of(op, args.c.dtype()),
                     args.mode == WriteMode::accumulate};
  shape.c = args.c.raw(), shape.c_stride = args.c.stride(0);
  shape.offsets = args.offsets.data<int32_t>();
  shape.experts = args.offsets.dim(0) - 1;
  shape.rows = args.a.dim(0);
  shape.n = weights[0] / shape.experts, shape.k = weights[1];
  if (!expert_forms(args).a.plain())
    return launch_grouped_codes(context, choice, args, shape, workspace);
  const Tensor& b = args.b.tensor();
  GroupedProduct product{shape, format_of(op, args.a.dtype())};
  product.a = args.a.raw(), product.b = b.raw();
  product.a_stride = args.a.stride(0), product.b_stride = b.stride(0);
  choice.kernel == kGroupedWarpgroups ? grouped_warpgroups(product, stream_of(context))
                                      : grouped_gemm(product, stream_of(context));
}

}  // namespace

void add_grouped_gemm_launches(OpTable& table) {
  table.grouped_gemm.launch = launch_grouped;
}

}  // namespace viaduct::cuda
