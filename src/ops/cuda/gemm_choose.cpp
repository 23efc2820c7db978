// Choices for products on a GPU, and for the sums and additions of biases.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/library_call.h"
#include "ops/cuda/produced_choose.h"
#include "ops/cuda/product_layout.h"
#include "ops/quantized_forms.h"

namespace viaduct::cuda {
namespace {

std::string_view product_kernel(const GemmArgs& args) {
  switch (args.quantization.scaling) {
    case Scaling::none:
      break;
    case Scaling::tensor:
      return "cublaslt_fp8";
    case Scaling::blocks:
      return "cublaslt_fp8_blocks";
    case Scaling::mx:
      return "cublaslt_mxfp8";
    case Scaling::nvfp4:
      return "cublaslt_nvfp4";
  }
  if (args.a.dtype() == DType::bf16) return "cublaslt_bf16";
  return args.a.dtype() == DType::f16 ? "cublaslt_f16" : "cublaslt_f32";
}

template <CudaTarget kTarget>
Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  const DType dtype = args.a.dtype();
  Choice choice = choose_kernel("gemm", product_kernel(args), dtype, args, traits);
  const std::optional<DType> element = args.a.form().element;
  if (element) {
    move_flops(choice.cost, element == DType::e2m1x2 ? FlopFormat::fp4 : FlopFormat::fp8);
  } else {
    use_matrix_units(choice.cost, dtype);
  }
  const auto layout = std::make_shared<const ProductLayout>(product_layout(args, kTarget));
  choice.workspace_bytes = layout->workspace_bytes;
  choice.launches = layout->launches;
  choice.cost.bytes_read += layout->bytes_read;
  choice.cost.bytes_written += layout->bytes_written;
  choice.plan = layout;
  const GemmEpilogue& epilogue = args.epilogue;
  if (!epilogue.any()) return choice;
  choice.cost += epilogue_cost(args);
  if (epilogue.raised) return choice;  // its launch is that which reads the product
  choice.launches += 1 + forms_launches(epilogue.forms);
  choice.cost.bytes_read += args.c.bytes();
  if (epilogue.residual) choice.cost.bytes_written += args.c.bytes();
  return choice;
}

std::string product_call(const Choice& choice, const GemmArgs& args) {
  const auto& layout = *static_cast<const ProductLayout*>(choice.plan.get());
  const auto kind = product_kind(layout, args, planned_alignments(layout, args));
  return kind ? note_of(*kind) : "";
}

template <CudaTarget kTarget>
GemmForms forms(const GemmRequest& request, const Traits&) {
  if (!request.quantization.any() || request.dtype == DType::f64) return {};
  check_quantization(request.quantization, kTarget);
  return quantized_forms(request.form, request.quantization);
}

template <CudaTarget kTarget>
void add_products(OpTable& table) {
  add_entry(table.gemm, choose_gemm<kTarget>);
  table.gemm.library_call = product_call;
  table.gemm_forms = forms<kTarget>;
}

Choice choose_column_sum(const ColumnSumArgs& args, const Traits& traits) {
  Choice choice = choose_kernel("column_sum", "row_parts", args.x.dtype(), args, traits);
  choice.workspace_bytes = parts_of(args.x.dim(0)) * args.x.dim(1) * dtype_bytes(DType::f32);
  choice.launches = 2;
  return choice;
}

Choice choose_bias_add(const BiasAddArgs& args, const Traits& traits) {
  return choose_kernel("bias_add", "rows", args.out.dtype(), args, traits);
}

}  // namespace

void add_gemm(OpTable& table, CudaTarget target) {
  switch (target) {
    case CudaTarget::sm_80:
      add_products<CudaTarget::sm_80>(table);
      break;
    case CudaTarget::sm_89:
      add_products<CudaTarget::sm_89>(table);
      break;
    case CudaTarget::sm_90a:
      add_products<CudaTarget::sm_90a>(table);
      break;
    case CudaTarget::sm_100a:
      add_products<CudaTarget::sm_100a>(table);
      break;
    case CudaTarget::sm_120:
      add_products<CudaTarget::sm_120>(table);
      break;
  }
  add_entry(table.column_sum, choose_column_sum);
  add_entry(table.bias_add, choose_bias_add);
}

}  // namespace viaduct::cuda
