// GGUF's blocks on the cpu: tasks decode whole blocks, some at a time, into a buffer that the cache
// holds, and round them. The decoder's loops have lengths that the compiler makes vectors of.

#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "ops/dequantize_blocks.h"
#include "ops/reference/reference.h"
#include "tensor/gguf_blocks.h"

namespace viaduct::cpu {
namespace {

/// Elements that are decoded at a time; a multiple of every type's block.
constexpr int64_t kDecoded = 4 * kLargestGgufBlock;
static_assert(kRunElements % kDecoded == 0);

Choice choose(const DequantizeBlocksArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = args.out.dtype() == DType::f64 ? "reference" : "blocks";
  choice.variant = args.out.dtype() == DType::f64 ? kReferenceKernel : kPortableKernel;
  choice.cost = cost_of(args);
  return choice;
}

void launch(OpContext& context, const Choice& choice, const DequantizeBlocksArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::dequantize_blocks(args);
  const auto* blocks = static_cast<const std::byte*>(args.blocks.raw());
  // Rows follow each other in both tensors, and are whole blocks.
  for_row_runs(context.device.pool(), 1, args.out.elements(),
               [&](int64_t, int64_t begin, int64_t n) {
                 float values[kDecoded];
                 dispatch_floating(args.out.dtype(), [&](auto zero) {
                   using T = decltype(zero);
                   T* out = args.out.data<T>();
                   for (int64_t at = begin; at < begin + n; at += kDecoded) {
                     const int64_t end = std::min(begin + n, at + kDecoded);
                     decode_gguf_elements(args.type, blocks, at, end, values);
                     for (int64_t i = at; i < end; ++i) out[i] = static_cast<T>(values[i - at]);
                   }
                 });
               });
}

}  // namespace

void add_dequantize_blocks(OpTable& table, CpuIsa) {
  table.dequantize_blocks = {choose, launch};
}

}  // namespace viaduct::cpu
