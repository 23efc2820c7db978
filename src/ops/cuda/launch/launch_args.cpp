#include "ops/cuda/launch/launch_args.h"

#include "device/cuda/cuda_device.h"
#include "ops/cuda/launch/keep_launches.h"

namespace viaduct {

namespace {

/// All launches, which are the same for each target.
const OpTable& direct_launches() {
  static const OpTable kTable = [] {
    OpTable table;
    cuda::add_elementwise_launches(table);
    cuda::add_gemm_launches(table);
    cuda::add_grouped_gemm_launches(table);
    cuda::add_attention_launches(table);
    cuda::add_composed_launches(table);
    cuda::add_row_launches(table);
    cuda::add_embedding_launches(table);
    cuda::add_expert_launches(table);
    cuda::add_quantize_launches(table);
    cuda::add_quantization_error_launches(table);
    cuda::add_optimizer_launches(table);
    cuda::add_sum_launches(table);
    cuda::add_momentum_launches(table);
    cuda::add_adafactor_launches(table);
    cuda::add_routing_launches(table);
    cuda::add_expert_order_launches(table);
    return table;
  }();
  return kTable;
}

}  // namespace

OpTable cuda_ops_with_launches(CudaTarget target) {
  return cuda::keep_launches<direct_launches>(cuda_ops(target));
}

namespace cuda {

void launch_failed(const char* kernel, const char* reason) {
  fail<DeviceError>("kernel {}: {}", kernel, reason);
}

Stream stream_of(const OpContext& context) {
  auto* const device = dynamic_cast<CudaDevice*>(&context.device);
  return device != nullptr ? device->handle(context.stream) : nullptr;
}

Format format_of(std::string_view op, DType dtype, bool with_f64) {
  switch (dtype) {
    case DType::f32:
      return Format::f32;
    case DType::bf16:
      return Format::bf16;
    case DType::f16:
      return Format::f16;
    case DType::f64:
      if (with_f64) return Format::f64;
      break;
    default:
      break;
  }
  fail<DeviceError>("{}: cuda has no kernel for {}; it has f32, bf16 and f16", op,
                    dtype_name(dtype));
}

Rows rows_of(std::string_view op, const Tensor& tensor, bool with_f64) {
  Rows rows;
  if (!tensor) return rows;
  VIADUCT_CHECK(DeviceError, tensor.rank() <= 4, "{}: cuda has kernels for up to 4 dims, found {}",
                op, describe(tensor));
  rows.data = tensor.raw();
  rows.format = format_of(op, tensor.dtype(), with_f64);
  const int outer = tensor.rank() - 1;
  for (int d = 0; d < outer; ++d) rows.strides[d] = tensor.stride(d);
  if (outer > 1) rows.middle = tensor.dim(1);
  if (outer > 2) rows.inner = tensor.dim(2);
  return rows;
}

Rows one_row(std::string_view op, const Tensor& tensor, bool with_f64) {
  Rows rows;
  if (!tensor) return rows;
  rows.data = tensor.raw();
  rows.format = format_of(op, tensor.dtype(), with_f64);
  return rows;
}

Vector vector_of(std::string_view op, const Tensor& tensor) {
  if (!tensor) return {};
  return {tensor.raw(), format_of(op, tensor.dtype())};
}

int64_t row_count(const Tensor& tensor) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < tensor.rank(); ++d) rows *= tensor.dim(d);
  return rows;
}

}  // namespace cuda
}  // namespace viaduct
