// Choice and launch of NF4 on the cpu. Tasks take whole blocks; the few absmax of a matrix are one
// task.

#include "ops/cpu/rows/nf4_kernels.h"
#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "ops/nf4.h"
#include "ops/reference/reference.h"
#include "tensor/nf4.h"

namespace viaduct::cpu {
namespace {

static_assert(kRunElements % kNf4Block == 0);

const Nf4Kernels& kernels(const Choice& choice) {
  return kernels_of(choice, portable::nf4_kernels, avx2::nf4_kernels, avx512::nf4_kernels);
}

/// Calls body(block, begin, count) on the pool for all blocks of `elements`.
template <class Body>
void for_blocks(ThreadPool& pool, int64_t elements, const Body& body) {
  for_row_runs(pool, 1, elements, [&](int64_t, int64_t begin, int64_t n) {
    for (int64_t at = begin; at < begin + n; at += kNf4Block)
      body(at / kNf4Block, at, std::min(kNf4Block, begin + n - at));
  });
}

template <CpuIsa kIsa>
Choice choose_quantize(const QuantizeNf4Args& args, const Traits&) {
  Choice choice = vector_choice("quantize_nf4", kIsa, args.values.dtype());
  choice.cost = cost_of(args);
  return choice;
}

void launch_quantize(OpContext& context, const Choice& choice, const QuantizeNf4Args& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::quantize_nf4(args);
  const DType dtype = args.values.dtype();
  const auto* values = static_cast<const std::byte*>(args.values.raw());
  auto* codes = static_cast<uint8_t*>(args.codes.raw());
  for_blocks(context.device.pool(), args.values.dim(0),
             [&](int64_t block, int64_t begin, int64_t count) {
               args.absmax.data<float>()[block] = kernels(choice).quantize(
                   values + begin * dtype_bytes(dtype), dtype, count, codes + begin / 2);
             });
}

Choice choose_absmax(const QuantizeAbsmaxArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "absmax";
  choice.cost = cost_of(args);
  return choice;
}

void launch_absmax(OpContext&, const Choice&, const QuantizeAbsmaxArgs& args, void*) {
  reference::quantize_absmax(args);
}

template <CpuIsa kIsa>
Choice choose_dequantize(const DequantizeNf4Args& args, const Traits&) {
  Choice choice = vector_choice("dequantize_nf4", kIsa, args.out.dtype());
  choice.cost = cost_of(args);
  return choice;
}

void launch_dequantize(OpContext& context, const Choice& choice, const DequantizeNf4Args& args,
                       void*) {
  if (choice.variant == kReferenceKernel) return reference::dequantize_nf4(args);
  const DType dtype = args.out.dtype();
  const auto* codes = static_cast<const uint8_t*>(args.codes.raw());
  const auto* absmax_codes = static_cast<const uint8_t*>(args.absmax_codes.raw());
  const float* scales = args.scales.data<float>();
  const float offset = *args.offset.data<float>();
  const Nf4Blocks& of = args.blocks;
  auto* out = static_cast<std::byte*>(args.out.raw());
  for_blocks(
      context.device.pool(), args.out.dim(0), [&](int64_t here, int64_t begin, int64_t count) {
        const int64_t block = of.first + here / of.run * of.stride + here % of.run;
        const float absmax = nf4_absmax(absmax_codes[here], scales[block / kNf4Group], offset);
        kernels(choice).dequantize(codes + begin / 2, count, absmax,
                                   out + begin * dtype_bytes(dtype), dtype);
      });
}

template <CpuIsa kIsa>
void add_entries(OpTable& table) {
  table.quantize_nf4 = {choose_quantize<kIsa>, launch_quantize};
  table.quantize_absmax = {choose_absmax, launch_absmax};
  table.dequantize_nf4 = {choose_dequantize<kIsa>, launch_dequantize};
}

}  // namespace

void add_nf4(OpTable& table, CpuIsa isa) {
  of_isa(isa, add_entries<CpuIsa::portable>, add_entries<CpuIsa::avx2>,
         add_entries<CpuIsa::avx512>)(table);
}

}  // namespace viaduct::cpu
