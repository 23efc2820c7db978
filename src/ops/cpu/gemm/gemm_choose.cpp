// Choice and launch of matrix products on the cpu: tiles of BF16 if the instruction set multiplies
// BF16, else tiles of FP32, to which 16-bit operands are widened. Quantized operands are widened to
// BF16 first (gemm_quantized.h).

#include <utility>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/gemm_few_rows.h"
#include "ops/cpu/gemm/gemm_isa.h"
#include "ops/cpu/gemm/gemm_kernels.h"
#include "ops/cpu/gemm/gemm_quantized.h"
#include "ops/cpu/gemm/nvfp4.h"
#include "ops/cpu/gemm/quantize.h"
#include "ops/cpu/rows/column_sum_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/quantized_forms.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

// Choice::variant besides those of cpu_entry.h: tiles of FP32, tiles of BF16; few rows in FP32 and
// in BF16.
enum GemmVariant : int { kFloatTiles = kFamilyKernels, kBf16Tiles, kFewFloatRows, kFewBf16Rows };

template <CpuIsa kIsa>
Choice choose_matrices(const GemmArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("gemm", args.a.dtype(), traits, "tiles_avx2");
  choice.cost = cost_of(args);
  if (choice.variant == kReferenceKernel) {
    choice.cost += epilogue_cost(args);
    return choice;
  }
  // AMX sums in another order: it computes few rows as rows of its tiles.
  const bool few = has_few_rows(args);
  if (on_bf16_tiles<kIsa>(args)) {
    if (few && kIsa == CpuIsa::avx512_bf16) {
      choice.variant = kFewBf16Rows;
      choice.kernel = "few_rows_avx512_bf16";
      choice.workspace_bytes = few_rows_workspace_bytes<bfloat16>(args);
    } else {
      choice.variant = kBf16Tiles;
      choice.kernel = kIsa == CpuIsa::amx ? "tiles_amx" : "tiles_avx512_bf16";
      choice.workspace_bytes = tile_workspace_bytes<kIsa>(args);
    }
    move_flops(choice.cost, FlopFormat::bf16);
  } else if (few) {
    choice.variant = kFewFloatRows;
    choice.kernel = kIsa == CpuIsa::portable ? "few_rows_portable"
                    : kIsa == CpuIsa::avx2   ? "few_rows_avx2"
                                             : "few_rows_avx512";
    choice.workspace_bytes = few_rows_workspace_bytes<float>(args);
  } else {
    choice.variant = kFloatTiles;
    choice.kernel = kIsa == CpuIsa::portable ? "tiles_portable"
                    : kIsa == CpuIsa::avx2   ? "tiles_avx2"
                                             : "tiles_avx512";
    choice.workspace_bytes = tile_workspace_bytes<kIsa>(args);
  }
  choice.cost += epilogue_cost(args);
  return choice;
}

/// `factor`: of the product, before bias, epilogue and what c has.
template <CpuIsa kIsa>
void multiply_matrices(OpContext& context, const Choice& choice, const GemmArgs& args,
                       void* workspace, float factor) {
  ThreadPool& pool = context.device.pool();
  const FinishKernels kernels = finish_kernels(kIsa, args.c.dtype());
  const int64_t depth = args.a.dim(1);  // of the product with few rows
  if (choice.variant == kFewFloatRows) {
    const FewRowsKernelsOf<float>& rows = kIsa == CpuIsa::portable ? portable::few_rows_kernels()
                                          : kIsa == CpuIsa::avx2   ? avx2::few_rows_kernels()
                                                                   : avx512::few_rows_kernels();
    return gemm_of_few_rows(pool, args, tile_visit<float>(depth, kFloatBlocking<kIsa>), rows,
                            kernels, workspace, factor);
  }
  if (choice.variant == kFewBf16Rows) {
    return gemm_of_few_rows(pool, args, tile_visit<bfloat16>(depth, kBf16Blocking<kIsa>),
                            avx512_bf16::few_rows_kernels(), kernels, workspace, factor);
  }
  run_on_tiles<kIsa>(pool, {&args, 1}, workspace, factor);
}

template <CpuIsa kIsa>
void launch_matrices(OpContext& context, const Choice& choice, const GemmArgs& args,
                     void* workspace, float factor = 1) {
  if (choice.variant == kReferenceKernel) return reference::gemm(args);
  begin_forms(args.epilogue.forms);
  multiply_matrices<kIsa>(context, choice, args, workspace, factor);
  end_forms(args.epilogue.forms);
}

template <CpuIsa kIsa>
Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  if (!is_quantized_product(args)) return choose_matrices<kIsa>(args, traits);
  return choose_widened(args, traits, choose_matrices<kIsa>);
}

template <CpuIsa kIsa>
void launch_gemm(OpContext& context, const Choice& choice, const GemmArgs& args, void* workspace) {
  if (!is_quantized_product(args)) return launch_matrices<kIsa>(context, choice, args, workspace);
  const WidenedProduct product = widen_operands(context, choice, args, workspace, kIsa);
  launch_matrices<kIsa>(context, product.choice, product.args, product.workspace, product.factor);
}

template <CpuIsa kIsa>
OpEntry<GemmArgs> entry() {
  return {choose_gemm<kIsa>, launch_gemm<kIsa>};
}

/// Quantized operands, where a recipe asks for them. Else, for the instruction sets with BF16
/// tiles, packed weights are tiles: each run of columns, and so each half of a gate, must begin
/// with a strip.
template <bool kTiles>
GemmForms forms(const GemmRequest& request, const Traits&) {
  if (request.quantization.any() && request.dtype != DType::f64)
    return quantized_forms(request.form, request.quantization);
  if (!kTiles) return {};
  if (!request.packed || request.dtype != DType::bf16 || request.run % kTileColumns != 0) return {};
  if (request.form == GemmForm::forward) return {{}, bf16_tiles(Orientation::row_wise)};
  if (request.form == GemmForm::data_gradient) return {{}, bf16_tiles(Orientation::column_wise)};
  return {};  // no weight among its operands
}

template <bool kTiles>
Choice choose_convert(const ConvertOperandArgs& args, const Traits& traits) {
  const OperandForm tiles = bf16_tiles(args.out.form().orientation);
  const DType dtype = args.matrix.dtype();
  const bool packs = kTiles && args.out.form() == tiles && dtype == DType::bf16;
  const bool quantizes =
      (is_quantized(args.out.form()) || is_nvfp4(args.out.form())) && dtype != DType::f64;
  VIADUCT_CHECK(DeviceError, packs || quantizes,
                "convert_operand: {} makes {}row-major e4m3, e5m2 and e2m1x2 with scales of f32, "
                "bf16 and f16, not {} of {}",
                traits.name, kTiles ? describe(tiles) + " of bf16, and " : "",
                describe(args.out.form()), dtype_name(dtype));
  Choice choice;
  choice.kernel = packs ? "tiles_avx512_bf16" : "quantize";
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

// AMX reads the same tiles.
template <CpuIsa kIsa>
void launch_convert(OpContext& context, const Choice&, const ConvertOperandArgs& args, void*) {
  if (is_quantized(args.out.form()))
    return quantize(context.device.pool(), args, quantize_kernels(kIsa));
  if (is_nvfp4(args.out.form()))
    return quantize_nvfp4(context.device.pool(), args, nvfp4_kernels(kIsa));
  pack_bf16_tiles(context.device.pool(), args, avx512_bf16::tile_kernels());
}

Choice choose_expand(const ExpandOperandArgs& args, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, is_quantized(args.operand.form()),
                "expand_operand: {} reads row-major e4m3 and e5m2, not {}", traits.name,
                describe(args.operand.form()));
  Choice choice;
  choice.kernel = "widen";
  choice.cost.bytes_read = args.operand.bytes();
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

template <CpuIsa kIsa>
void launch_expand(OpContext& context, const Choice&, const ExpandOperandArgs& args, void*) {
  widen(context.device.pool(), args.operand, args.out, quantize_kernels(kIsa));
}

OpEntry<ExpandOperandArgs> expand_entry(CpuIsa isa) {
  return {choose_expand, of_isa(isa, launch_expand<CpuIsa::portable>, launch_expand<CpuIsa::avx2>,
                                launch_expand<CpuIsa::avx512>)};
}

}  // namespace

void add_gemm(OpTable& table, CpuIsa isa) {
  table.column_sum = column_sum_entry(isa);
  table.expand_operand = expand_entry(isa);
  table.produced_forms = produced_forms;
  table.product_terms = true;
  if (isa != CpuIsa::amx) table.reduced_rows = kFewRows;
  if (isa == CpuIsa::avx512_bf16 || isa == CpuIsa::amx) {
    table.gemm_forms = forms<true>;
    table.convert_operand = {choose_convert<true>, launch_convert<CpuIsa::avx512>};
  } else {
    table.gemm_forms = forms<false>;
    table.convert_operand = {choose_convert<false>,
                             of_isa(isa, launch_convert<CpuIsa::portable>,
                                    launch_convert<CpuIsa::avx2>, launch_convert<CpuIsa::avx512>)};
  }
  switch (isa) {
    case CpuIsa::portable:
      table.gemm = entry<CpuIsa::portable>();
      break;
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
