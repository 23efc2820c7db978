#include "ops/cpu/vector_choice.h"

#include "base/error.h"

namespace viaduct::cpu {

Choice vector_choice(std::string_view op, CpuIsa isa, DType dtype) {
  VIADUCT_CHECK(DeviceError, is_floating(dtype),
                "{}: the cpu has kernels for f32, bf16, f16 and f64, not for {}", op,
                dtype_name(dtype));
  Choice choice;
  if (dtype == DType::f64) {
    choice.kernel = "reference";
    choice.variant = kReferenceKernel;
  } else {
    choice.variant = variant_of(isa);
    choice.kernel = choice.variant == kPortableKernel ? "portable"
                    : choice.variant == kAvx2Kernel   ? "avx2"
                                                      : "avx512";
  }
  return choice;
}

Choice narrowing_choice(std::string_view op, CpuIsa isa, DType dtype, bool narrows_bf16) {
  Choice choice = vector_choice(op, isa, dtype);
  const bool has_instruction = isa == CpuIsa::avx512_bf16 || isa == CpuIsa::amx;
  if (choice.variant == kAvx512Kernel && has_instruction && narrows_bf16) {
    choice.variant = kAvx512Bf16Kernel;
    choice.kernel = "avx512_bf16";
  }
  return choice;
}

RowView row_view(const Tensor& tensor) {
  RowView view;
  if (!tensor.defined()) return view;
  const int64_t size = dtype_bytes(tensor.dtype());
  view.data = static_cast<char*>(tensor.raw());
  view.dtype = tensor.dtype();
  view.outer_stride = tensor.stride(0) * size;
  if (tensor.rank() == 3) {
    view.inner = tensor.dim(1);
    view.inner_stride = tensor.stride(1) * size;
  }
  return view;
}

}  // namespace viaduct::cpu
