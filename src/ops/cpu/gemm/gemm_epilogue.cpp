#include "ops/cpu/gemm/gemm_epilogue.h"

#include <algorithm>

#include "ops/cpu/cpu_entry.h"

namespace viaduct::cpu {
namespace {

// Bytes of a result between rounding and epilogue: half of an L1 cache.
constexpr int64_t kRoundedBytes = 16 * 1024;

std::byte* address(const Tensor& tensor, int64_t row, int64_t column) {
  return static_cast<std::byte*>(tensor.raw()) +
         (row * tensor.stride(0) + column) * dtype_bytes(tensor.dtype());
}

/// The rows of a matrix from element (row, column) on.
RowView rows_from(const Tensor& tensor, int64_t row, int64_t column) {
  return {reinterpret_cast<char*>(address(tensor, row, column)), tensor.dtype(), 1,
          tensor.stride(0) * dtype_bytes(tensor.dtype()), 0};
}

/// Writes sums whose first column is `column` of c, with bias, to rows of c's dtype `to_stride`
/// elements apart.
void round_sums(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                const float* sums, int64_t column, void* to, int64_t to_stride) {
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::f32;
  if (args.bias) {
    bias_dtype = args.bias.dtype();
    bias = static_cast<const std::byte*>(args.bias.raw()) + column * dtype_bytes(bias_dtype);
  }
  kernels.gemm.store(sums, block.stride, block.rows, block.columns, bias, bias_dtype,
                     args.mode == WriteMode::accumulate, to, args.c.dtype(), to_stride);
}

void round_to_c(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                const float* sums, int64_t column) {
  round_sums(args, kernels, block, sums, column, address(args.c, block.row, column),
             args.c.stride(0));
}

/// Applies the activation to rows of c that are complete.
void activate(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block) {
  const GemmEpilogue& epilogue = args.epilogue;
  const ActivationRows rows{epilogue.activation,
                            epilogue.gated,
                            block.columns,
                            rows_from(args.c, block.row, block.column),
                            rows_from(epilogue.activated, block.row, block.column),
                            {},
                            epilogue.activated.dim(1)};
  kernels.activation.forward(rows, 0, block.rows);
}

void add_residual(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                  const RowView& product) {
  const DType dtype = args.c.dtype();
  for (int64_t row = 0; row < block.rows; ++row) {
    kernels.elementwise.add(address(args.epilogue.residual, block.row + row, block.column), dtype,
                            product.row(row), dtype, address(args.c, block.row + row, block.column),
                            dtype, block.columns);
  }
}

void differentiate(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                   const RowView& product) {
  const GemmEpilogue& epilogue = args.epilogue;
  const ActivationRows rows{epilogue.activation,
                            epilogue.gated,
                            block.columns,
                            rows_from(epilogue.raised, block.row, block.column),
                            product,
                            rows_from(args.c, block.row, block.column),
                            args.b.dim(1)};
  kernels.activation.backward(rows, 0, block.rows);
}

/// Rows of a block, few enough for the L1 cache.
void finish_rows(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block) {
  if (args.epilogue.activated) {
    round_to_c(args, kernels, block, block.sums, block.column);
    if (args.epilogue.gated) {
      round_to_c(args, kernels, block, block.up_sums,
                 args.epilogue.activated.dim(1) + block.column);
    }
    activate(args, kernels, block);
    if (args.epilogue.forms.any()) {
      make_forms(args.epilogue.forms, args.epilogue.activated, kernels.forms, block.row, block.rows,
                 block.column, block.columns);
    }
    return;
  }
  // c does not hold the product itself.
  alignas(64) char memory[kRoundedBytes];
  const DType dtype = args.c.dtype();
  round_sums(args, kernels, block, block.sums, block.column, memory, block.columns);
  const RowView product{memory, dtype, 1, block.columns * dtype_bytes(dtype), 0};
  args.epilogue.residual ? add_residual(args, kernels, block, product)
                         : differentiate(args, kernels, block, product);
}

/// Prefetches the columns of a block from `column` on into the L2 cache.
void fetch(const Tensor& tensor, const GemmBlock& block, int64_t column) {
  const int64_t bytes = block.columns * dtype_bytes(tensor.dtype());
  for (int64_t row = block.row; row < block.row + block.rows; ++row) {
    const std::byte* from = address(tensor, row, column);
    for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(from + byte, 0, 2);
  }
}

}  // namespace

FinishKernels finish_kernels(CpuIsa isa, DType dtype) {
  const FormKernels forms = form_kernels(isa);
  if (isa == CpuIsa::portable)
    return {portable::gemm_kernels(), portable::activation_kernels, portable::elementwise_kernels(),
            forms};
  if (isa == CpuIsa::avx2)
    return {avx2::gemm_kernels(), avx2::activation_kernels, avx2::elementwise_kernels(), forms};
  if (isa == CpuIsa::avx512)
    return {avx512::gemm_kernels(), avx512::activation_kernels, avx512::elementwise_kernels(),
            forms};
  return {avx512_bf16::gemm_kernels(),
          dtype == DType::bf16 ? avx512_bf16::activation_kernels : avx512::activation_kernels,
          avx512_bf16::elementwise_kernels(), forms};
}

void fetch_block(const GemmArgs& args, const GemmBlock& block) {
  const GemmEpilogue& epilogue = args.epilogue;
  if (epilogue.residual) fetch(epilogue.residual, block, block.column);
  if (!epilogue.raised) return;
  fetch(epilogue.raised, block, block.column);
  if (epilogue.gated) fetch(epilogue.raised, block, args.b.dim(1) + block.column);
}

void finish_block(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block) {
  if (block.factor != 1) {
    for (float* sums : {block.sums, block.up_sums})
      if (sums != nullptr)
        kernels.gemm.scale(sums, block.stride, block.rows, block.columns, block.factor);
  }
  if (!args.epilogue.any()) return round_to_c(args, kernels, block, block.sums, block.column);
  const int64_t together = rows_together(args.epilogue.forms);
  const int64_t fit = kRoundedBytes / (block.columns * dtype_bytes(args.c.dtype()));
  const int64_t run = std::max<int64_t>(1, fit / together) * together;
  GemmBlock part = block;
  for (int64_t begin = 0; begin < block.rows; begin += run) {
    part.row = block.row + begin;
    part.rows = std::min(run, block.rows - begin);
    part.sums = block.sums + begin * block.stride;
    if (block.up_sums != nullptr) part.up_sums = block.up_sums + begin * block.stride;
    finish_rows(args, kernels, part);
  }
}

}  // namespace viaduct::cpu
