#pragma once
// Which tiles multiply on an instruction set, and in blocks of which size. BF16 tiles if it
// multiplies BF16, else tiles of FP32, to which 16-bit operands are widened.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/gemm_tiles.h"

namespace viaduct::cpu {

// C and the strips of A (192 KB and 96 KB, in FP32 192 KB) stay in the L2 cache; two strips of B
// stream through L1.
inline constexpr TileBlocking kVectorBlocking{64, 768, 768};
// AVX2 machines have 32 KB of L1 cache, and one strip of B streams through it.
inline constexpr TileBlocking kAvx2Blocking{96, 768, 384};
// AMX is ten times as fast with the same caches. One strip of B streams through L1 after the other,
// A (384 or 512 KB) and C (384 KB) stay in L2; large results are written past it. Prefetching A
// costs more there than it saves.
inline constexpr TileBlocking kAmxBlocking{256, 384, 768, 512 << 10, 16384, false, 1 << 20};

template <CpuIsa kIsa>
constexpr bool kHasBf16Tiles = kIsa == CpuIsa::avx512_bf16 || kIsa == CpuIsa::amx;
template <CpuIsa kIsa>
constexpr TileBlocking kBf16Blocking = kIsa == CpuIsa::amx ? kAmxBlocking : kVectorBlocking;
template <CpuIsa kIsa>
constexpr TileBlocking kFloatBlocking = kIsa <= CpuIsa::avx2 ? kAvx2Blocking : kVectorBlocking;

template <CpuIsa kIsa>
bool on_bf16_tiles(const GemmArgs& args) {
  return kHasBf16Tiles<kIsa> && args.a.dtype() == DType::bf16;
}

template <CpuIsa kIsa>
int64_t tile_workspace_bytes(const GemmArgs& args) {
  return on_bf16_tiles<kIsa>(args) ? tile_workspace_bytes<bfloat16>(args, kBf16Blocking<kIsa>)
                                   : tile_workspace_bytes<float>(args, kFloatBlocking<kIsa>);
}

/// `gemms_on_tiles` of products of one dtype of a and one of c.
template <CpuIsa kIsa>
void run_on_tiles(ThreadPool& pool, std::span<const GemmArgs> products, void* workspace,
                  float factor = 1) {
  const FinishKernels kernels = finish_kernels(kIsa, products.front().c.dtype());
  if (on_bf16_tiles<kIsa>(products.front())) {
    const TileKernels& tiles =
        kIsa == CpuIsa::amx ? amx::tile_kernels() : avx512_bf16::tile_kernels();
    return gemms_on_tiles(pool, products, kBf16Blocking<kIsa>, tiles, kernels, workspace, factor);
  }
  const TileKernelsOf<float>& tiles = kIsa == CpuIsa::portable ? portable::float_tile_kernels()
                                      : kIsa == CpuIsa::avx2   ? avx2::float_tile_kernels()
                                                               : avx512::float_tile_kernels();
  gemms_on_tiles(pool, products, kFloatBlocking<kIsa>, tiles, kernels, workspace, factor);
}

}  // namespace viaduct::cpu
