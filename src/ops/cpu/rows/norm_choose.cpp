#include <algorithm>

#include "ops/cpu/gemm/produced_rows.h"
#include "ops/cpu/rows/norm_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

int64_t rows_of(const Tensor& x) {
  return x.elements() / x.dim(-1);
}

const NormKernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::norm_kernels, avx2::norm_kernels, avx512::norm_kernels,
                    avx512_bf16::norm_kernels);
}

/// Rows of a task have about this many elements, whatever the number of threads.
constexpr int64_t kTaskElements = 16384;

/// Blocks of rows whose parts of d_weight are summed separately: boundaries depend only on the
/// shape. A block adds up pieces of at most kPieceRows rows, so that no sum is long.
struct RowBlocks {
  static constexpr int64_t kPieceRows = 32;
  int64_t rows_per_block, blocks, stride;  // stride: floats between the parts of two blocks
  explicit RowBlocks(const Tensor& x) {
    const int64_t rows = rows_of(x);
    rows_per_block = std::max<int64_t>({16, kTaskElements / x.dim(-1), (rows + 63) / 64});
    blocks = (rows + rows_per_block - 1) / rows_per_block;
    stride = (x.dim(-1) + 15) / 16 * 16;
  }
  /// A block's part of d_weight and a piece of it, then the same of d_bias if there is one.
  int64_t block_floats(const NormBackwardArgs& args) const {
    return (args.d_bias ? 4 : 2) * stride;
  }
};

template <CpuIsa isa>
Choice choose_forward(const NormForwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("norm_forward", isa, args.x.dtype(), args.y.dtype() == DType::bf16);
  choice.cost = cost_of(args);
  return choice;
}

void launch_forward(OpContext& context, const Choice& choice, const NormForwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::norm_forward(args);
  NormRows rows;
  rows.layer_norm = args.kind == NormKind::layer_norm;
  rows.width = args.x.dim(-1);
  rows.x = row_view(args.x);
  rows.y = row_view(args.y);
  rows.weight = args.weight.raw();
  rows.weight_f32 = args.weight.dtype() == DType::f32;
  rows.bias = args.bias ? args.bias.raw() : nullptr;
  rows.bias_f32 = args.bias.dtype() == DType::f32;
  rows.mean = args.mean ? args.mean.data<float>() : nullptr;
  rows.rstd = args.rstd ? args.rstd.data<float>() : nullptr;
  rows.eps = static_cast<float>(args.eps);
  rows.weight_offset = static_cast<float>(args.weight_offset);
  const int64_t count = rows_of(args.x), together = rows_together(args.forms);
  const int64_t step = std::max<int64_t>(1, kTaskElements / (rows.width * together)) * together;
  const FormKernels form_kernels = cpu::form_kernels(isa_of(choice));
  begin_forms(args.forms);
  context.device.pool().run((count + step - 1) / step, [&](int64_t task, int) {
    const int64_t begin = task * step, end = std::min(count, begin + step);
    kernels(choice).forward(rows, begin, end);
    if (args.forms.any())
      make_forms(args.forms, args.y, form_kernels, begin, end - begin, 0, rows.width);
  });
  end_forms(args.forms);
}

template <CpuIsa isa>
Choice choose_backward(const NormBackwardArgs& args, const Traits&) {
  Choice choice =
      narrowing_choice("norm_backward", isa, args.x.dtype(), args.x.dtype() == DType::bf16);
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel) {
    const RowBlocks blocks(args.x);
    choice.workspace_bytes = blocks.blocks * blocks.block_floats(args) * 4;
    choice.launches = 2;
  }
  return choice;
}

void launch_backward(OpContext& context, const Choice& choice, const NormBackwardArgs& args,
                     void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::norm_backward(args);
  NormRows rows;
  rows.layer_norm = args.kind == NormKind::layer_norm;
  rows.width = args.x.dim(-1);
  rows.x = row_view(args.x);
  rows.dy = row_view(args.dy);
  rows.dx_add = row_view(args.dx_add);
  rows.dx = row_view(args.dx);
  rows.weight = args.weight.raw();
  rows.weight_f32 = args.weight.dtype() == DType::f32;
  rows.mean = rows.layer_norm ? args.mean.data<float>() : nullptr;
  rows.rstd = args.rstd.data<float>();
  rows.weight_offset = static_cast<float>(args.weight_offset);
  const int64_t count = rows_of(args.x);
  const RowBlocks blocks(args.x);
  const int64_t block_floats = blocks.block_floats(args);
  auto* d_weight = static_cast<float*>(workspace);
  float* d_bias = args.d_bias ? d_weight + 2 * blocks.stride : nullptr;
  ThreadPool& pool = context.device.pool();
  pool.run(blocks.blocks, [&](int64_t b, int) {
    const int64_t end = std::min(count, (b + 1) * blocks.rows_per_block);
    float* const weight_share = d_weight + b * block_floats;
    float* const bias_share = d_bias != nullptr ? d_bias + b * block_floats : nullptr;
    int64_t piece = 0;  // floats from a block's part to the sums over its rows
    for (int64_t row = b * blocks.rows_per_block; row < end; row += RowBlocks::kPieceRows) {
      kernels(choice).backward(rows, row, std::min(end, row + RowBlocks::kPieceRows),
                               weight_share + piece,
                               bias_share != nullptr ? bias_share + piece : nullptr);
      if (piece == 0) {
        piece = blocks.stride;
        continue;
      }
      for (float* share : {weight_share, bias_share}) {
        if (share != nullptr)
          kernels(choice).add_partials(share + piece, 1, 0, share, 0, rows.width);
      }
    }
  });
  constexpr int64_t kColumns = 256;
  pool.run((rows.width + kColumns - 1) / kColumns, [&](int64_t task, int) {
    const int64_t begin = task * kColumns, end = std::min(rows.width, begin + kColumns);
    kernels(choice).add_partials(d_weight, blocks.blocks, block_floats, args.d_weight.data<float>(),
                                 begin, end);
    if (d_bias != nullptr) {
      kernels(choice).add_partials(d_bias, blocks.blocks, block_floats, args.d_bias.data<float>(),
                                   begin, end);
    }
  });
}

template <CpuIsa isa>
void fill(OpTable& table) {
  table.norm_forward = {choose_forward<isa>, launch_forward};
  table.norm_backward = {choose_backward<isa>, launch_backward};
}

}  // namespace

void add_norm(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill<CpuIsa::portable>, fill<CpuIsa::avx2>, fill<CpuIsa::avx512>,
         fill<CpuIsa::avx512_bf16>)(table);
}

}  // namespace viaduct::cpu
