#include "ops/cpu/tile_pack.h"
#include "ops/cpu/tile_vectors.h"

namespace viaduct::cpu::avx512_bf16 {
namespace {

struct Pairs {
  using Element = bfloat16;
  static __m512 add(__m512 sums, Units spread, Units row) {
    return _mm512_dpbf16_ps(sums, (__m512bh)spread, (__m512bh)row);
  }
};

}  // namespace

const TileKernels& tile_kernels() {
  static constexpr TileKernels kKernels{pack<false>, pack<true>, vector_product<Pairs>, nothing,
                                        nothing};
  return kKernels;
}

}  // namespace viaduct::cpu::avx512_bf16
