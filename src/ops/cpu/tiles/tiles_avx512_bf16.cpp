#include "ops/cpu/tiles/tile_arithmetic.h"
#include "ops/cpu/tiles/tile_pack.h"
#include "ops/cpu/tiles/tile_vectors.h"

namespace viaduct::cpu::avx512_bf16 {
const TileKernels& tile_kernels() {
  static constexpr TileKernels kKernels{pack<false>, pack<true>, vector_product<Pairs>, nothing,
                                        nothing};
  return kKernels;
}

}  // namespace viaduct::cpu::avx512_bf16
