// Choice and launch of matrix products on the cpu: tiles of BF16 if the instruction set multiplies
// BF16, else tiles of FP32, to which 16-bit operands are widened.

#include <utility>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/gemm_few_rows.h"
#include "ops/cpu/gemm/gemm_kernels.h"
#include "ops/cpu/gemm/gemm_tiles.h"
#include "ops/cpu/rows/column_sum_kernels.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

// C and the strips of A (192 KB and 96 KB, in FP32 192 KB) stay in the L2 cache; two strips of B
// stream through L1.
constexpr TileBlocking kVectorBlocking{64, 768, 768};
// AVX2 machines have 32 KB of L1 cache, and one strip of B streams through it.
constexpr TileBlocking kAvx2Blocking{96, 768, 384};
// AMX is ten times as fast with the same caches: two strips of B and the matching part of A, 48 KB,
// in L1; 384 and 192 KB in L2.
constexpr TileBlocking kAmxBlocking{256, 384, 384};

// Choice::variant besides those of cpu_entry.h: tiles of FP32, tiles of BF16; few rows in FP32 and
// in BF16.
enum GemmVariant : int { kFloatTiles = kFamilyKernels, kBf16Tiles, kFewFloatRows, kFewBf16Rows };

template <CpuIsa kIsa>
constexpr bool kHasBf16Tiles = kIsa == CpuIsa::avx512_bf16 || kIsa == CpuIsa::amx;
template <CpuIsa kIsa>
constexpr TileBlocking kBf16Blocking = kIsa == CpuIsa::amx ? kAmxBlocking : kVectorBlocking;
template <CpuIsa kIsa>
constexpr TileBlocking kFloatBlocking = kIsa == CpuIsa::avx2 ? kAvx2Blocking : kVectorBlocking;

template <CpuIsa kIsa>
Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  const int64_t depth = args.form == GemmForm::weight_gradient ? args.a.dim(0) : args.a.dim(1);
  Choice choice = choose_by_dtype("gemm", args.a.dtype(), traits, "tiles_avx2");
  // In the gradient of a gated activation c has more columns than the product.
  const int64_t columns = args.epilogue.raised ? args.b.dim(1) : args.c.dim(1);
  add_flops(choice, args.a.dtype(),
            2.0 * static_cast<double>(args.c.dim(0) * columns) * static_cast<double>(depth));
  choice.cost.bytes_read = args.a.bytes() + args.b.bytes() + bytes_of(args.bias) +
                           (args.mode == WriteMode::accumulate ? args.c.bytes() : 0);
  choice.cost.bytes_written = args.c.bytes();
  if (choice.variant == kReferenceKernel) {
    add_epilogue_cost(args, choice);
    return choice;
  }
  // AMX sums in another order: it computes few rows as rows of its tiles.
  const bool few = has_few_rows(args);
  if (kHasBf16Tiles<kIsa> && args.a.dtype() == DType::bf16) {
    if (few && kIsa == CpuIsa::avx512_bf16) {
      choice.variant = kFewBf16Rows;
      choice.kernel = "few_rows_avx512_bf16";
      choice.workspace_bytes = few_rows_workspace_bytes<bfloat16>(args);
    } else {
      choice.variant = kBf16Tiles;
      choice.kernel = kIsa == CpuIsa::amx ? "tiles_amx" : "tiles_avx512_bf16";
      choice.workspace_bytes = tile_workspace_bytes<bfloat16>(args, kBf16Blocking<kIsa>);
    }
    std::swap(choice.cost.flops[static_cast<size_t>(FlopFormat::f32)],
              choice.cost.flops[static_cast<size_t>(FlopFormat::bf16)]);
  } else if (few) {
    choice.variant = kFewFloatRows;
    choice.kernel = kIsa == CpuIsa::avx2 ? "few_rows_avx2" : "few_rows_avx512";
    choice.workspace_bytes = few_rows_workspace_bytes<float>(args);
  } else {
    choice.variant = kFloatTiles;
    choice.kernel = kIsa == CpuIsa::avx2 ? "tiles_avx2" : "tiles_avx512";
    choice.workspace_bytes = tile_workspace_bytes<float>(args, kFloatBlocking<kIsa>);
  }
  add_epilogue_cost(args, choice);
  return choice;
}

template <CpuIsa kIsa>
void launch_gemm(OpContext& context, const Choice& choice, const GemmArgs& args, void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::gemm(args);
  ThreadPool& pool = context.device.pool();
  const FinishKernels kernels = finish_kernels(kIsa, args.c.dtype());
  const int64_t depth = args.a.dim(1);  // of the product with few rows
  if (choice.variant == kFewFloatRows) {
    const FewRowsKernelsOf<float>& rows =
        kIsa == CpuIsa::avx2 ? avx2::few_rows_kernels() : avx512::few_rows_kernels();
    return gemm_of_few_rows(pool, args, tile_visit<float>(depth, kFloatBlocking<kIsa>), rows,
                            kernels, workspace);
  }
  if (choice.variant == kFewBf16Rows) {
    return gemm_of_few_rows(pool, args, tile_visit<bfloat16>(depth, kBf16Blocking<kIsa>),
                            avx512_bf16::few_rows_kernels(), kernels, workspace);
  }
  if (choice.variant == kFloatTiles) {
    const TileKernelsOf<float>& tiles =
        kIsa == CpuIsa::avx2 ? avx2::float_tile_kernels() : avx512::float_tile_kernels();
    return gemm_on_tiles(pool, args, kFloatBlocking<kIsa>, tiles, kernels, workspace);
  }
  const TileKernels& tiles =
      kIsa == CpuIsa::amx ? amx::tile_kernels() : avx512_bf16::tile_kernels();
  gemm_on_tiles(pool, args, kBf16Blocking<kIsa>, tiles, kernels, workspace);
}

template <CpuIsa kIsa>
OpEntry<GemmArgs> entry() {
  return {choose_gemm<kIsa>, launch_gemm<kIsa>};
}

/// For the instruction sets with BF16 tiles: packed weights are tiles. Each run of columns, and so
/// each half of a gate, must begin with a strip.
GemmForms packed_forms(const GemmRequest& request, const Traits&) {
  if (!request.packed || request.dtype != DType::bf16 || request.run % kTileColumns != 0) return {};
  if (request.form == GemmForm::forward) return {{}, bf16_tiles(Orientation::row_wise)};
  if (request.form == GemmForm::data_gradient) return {{}, bf16_tiles(Orientation::column_wise)};
  return {};  // no weight among its operands
}

Choice choose_convert(const ConvertOperandArgs& args, const Traits& traits) {
  const OperandForm tiles = bf16_tiles(args.out.form().orientation);
  VIADUCT_CHECK(DeviceError, args.out.form() == tiles && args.matrix.dtype() == DType::bf16,
                "convert_operand: {} makes {} of bf16, not {} of {}", traits.name, describe(tiles),
                describe(args.out.form()), dtype_name(args.matrix.dtype()));
  Choice choice;
  choice.kernel = "tiles_avx512_bf16";
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

// AMX reads the same tiles.
void launch_convert(OpContext& context, const Choice&, const ConvertOperandArgs& args, void*) {
  pack_bf16_tiles(context.device.pool(), args, avx512_bf16::tile_kernels());
}

}  // namespace

void add_gemm(OpTable& table, CpuIsa isa) {
  table.column_sum = column_sum_entry(isa);
  if (isa == CpuIsa::avx512_bf16 || isa == CpuIsa::amx) {
    table.gemm_forms = packed_forms;
    table.convert_operand = {choose_convert, launch_convert};
  }
  switch (isa) {
    case CpuIsa::avx2:
      table.gemm = entry<CpuIsa::avx2>();
      break;
    case CpuIsa::avx512:
      table.gemm = entry<CpuIsa::avx512>();
      break;
    case CpuIsa::avx512_bf16:
      table.gemm = entry<CpuIsa::avx512_bf16>();
      break;
    case CpuIsa::amx:
      table.gemm = entry<CpuIsa::amx>();
      break;
  }
}

}  // namespace viaduct::cpu
