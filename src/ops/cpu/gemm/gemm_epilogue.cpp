#include "ops/cpu/gemm/gemm_epilogue.h"

#include <algorithm>

#include "ops/cpu/cpu_entry.h"

namespace viaduct::cpu {
namespace {

// Bytes of a result between rounding and epilogue: half of an L1 cache. Rows that are streamed are
// made in three parts of it: up to two for c, one for the product or its activation.
constexpr int64_t kStagedBytes = 5 * 1024, kRoundedBytes = 16 * 1024;

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
                const float* sums, int64_t column, void* to, int64_t to_stride,
                bool streamed = false) {
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::f32;
  if (args.bias) {
    bias_dtype = args.bias.dtype();
    bias = static_cast<const std::byte*>(args.bias.raw()) + column * dtype_bytes(bias_dtype);
  }
  kernels.gemm.store(sums, block.stride, block.rows, block.columns, bias, bias_dtype,
                     args.mode == WriteMode::accumulate, to, args.c.dtype(), to_stride, streamed);
}

/// Where the rows of a block of a result are made: in the tensor, or in memory from which they are
/// streamed to it.
struct MadeRows {
  const Tensor* tensor;
  RowView rows;
  bool staged;

  static MadeRows of(const Tensor& tensor, const GemmBlock& block, int64_t columns,
                     std::byte* memory) {
    const int64_t size = dtype_bytes(tensor.dtype());
    if (!block.streamed) return {&tensor, rows_from(tensor, block.row, block.column), false};
    return {&tensor, {reinterpret_cast<char*>(memory), tensor.dtype(), 1, columns * size, 0}, true};
  }
  /// Columns [from, from + block.columns) of the memory go to `column` of the tensor.
  void stream(const FinishKernels& kernels, const GemmBlock& block, int64_t from,
              int64_t column) const {
    if (!staged) return;
    const int64_t size = dtype_bytes(tensor->dtype());
    kernels.gemm.stream(reinterpret_cast<const std::byte*>(rows.row(0)) + from * size,
                        rows.outer_stride, block.rows, block.columns * size,
                        address(*tensor, block.row, column), tensor->stride(0) * size);
  }
};

void add_residual(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                  const RowView& product, const RowView& to) {
  const DType dtype = args.c.dtype();
  for (int64_t row = 0; row < block.rows; ++row) {
    kernels.elementwise.add(address(args.epilogue.residual, block.row + row, block.column), dtype,
                            product.row(row), dtype, to.row(row), dtype, block.columns);
  }
}

void differentiate(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
                   const RowView& product, const RowView& to, int64_t to_up) {
  const GemmEpilogue& epilogue = args.epilogue;
  const ActivationRows rows{epilogue.activation,
                            epilogue.gated,
                            block.columns,
                            rows_from(epilogue.raised, block.row, block.column),
                            product,
                            to,
                            args.b.dim(1),
                            to_up};
  kernels.activation.backward(rows, 0, block.rows);
}

/// The forward of an activation: c is rounded, then activated.
void activate(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block,
              std::byte* memory) {
  const GemmEpilogue& epilogue = args.epilogue;
  const int64_t halves = epilogue.gated ? 2 : 1,
                up = epilogue.gated ? epilogue.activated.dim(1) : 0;
  const DType dtype = args.c.dtype();
  const MadeRows c = MadeRows::of(args.c, block, halves * block.columns, memory);
  const MadeRows activated =
      MadeRows::of(epilogue.activated, block, block.columns, memory + 2 * kStagedBytes);
  const int64_t to_up = c.staged ? block.columns : up;
  const int64_t stride = c.rows.outer_stride / dtype_bytes(dtype);
  round_sums(args, kernels, block, block.sums, block.column, c.rows.row(0), stride);
  if (epilogue.gated)
    round_sums(args, kernels, block, block.up_sums, up + block.column,
               c.rows.row(0) + to_up * dtype_bytes(dtype), stride);
  const ActivationRows rows{
      epilogue.activation, epilogue.gated, block.columns, c.rows, activated.rows, {}, to_up};
  kernels.activation.forward(rows, 0, block.rows);
  c.stream(kernels, block, 0, block.column);
  if (epilogue.gated) c.stream(kernels, block, block.columns, up + block.column);
  activated.stream(kernels, block, 0, block.column);
  if (epilogue.forms.any()) {
    make_forms(epilogue.forms, epilogue.activated, kernels.forms, block.row, block.rows,
               block.column, block.columns);
  }
}

/// Rows of a block, few enough for the L1 cache.
void finish_rows(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block) {
  alignas(64) std::byte memory[kRoundedBytes];
  if (args.epilogue.activated) return activate(args, kernels, block, memory);
  const DType dtype = args.c.dtype();
  const bool gated = args.epilogue.raised && args.epilogue.gated;
  const MadeRows c = MadeRows::of(args.c, block, (gated ? 2 : 1) * block.columns, memory);
  // c does not hold the product itself.
  std::byte* const rounded = c.staged ? memory + 2 * kStagedBytes : memory;
  round_sums(args, kernels, block, block.sums, block.column, rounded, block.columns);
  const RowView product{reinterpret_cast<char*>(rounded), dtype, 1,
                        block.columns * dtype_bytes(dtype), 0};
  if (args.epilogue.residual) {
    add_residual(args, kernels, block, product, c.rows);
    return c.stream(kernels, block, 0, block.column);
  }
  const int64_t up = args.b.dim(1);  // from a gate to its factor, in c
  differentiate(args, kernels, block, product, c.rows, c.staged ? block.columns : up);
  c.stream(kernels, block, 0, block.column);
  if (gated) c.stream(kernels, block, block.columns, up + block.column);
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
  if (!args.epilogue.any())
    return round_sums(args, kernels, block, block.sums, block.column,
                      address(args.c, block.row, block.column), args.c.stride(0), block.streamed);
  const int64_t together = rows_together(args.epilogue.forms);
  const int64_t most = block.streamed ? kStagedBytes : kRoundedBytes;
  const int64_t fit = most / (block.columns * dtype_bytes(args.c.dtype()));
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
