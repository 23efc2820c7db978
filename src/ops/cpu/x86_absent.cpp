// On other processors: what instruction sets of x86 have beside the tables of
// ops/cpu/kernel_sets.h, and is not compiled there.

#if !defined(__x86_64__)

#include "ops/cpu/attention/attention_tile_blocks.h"
#include "ops/cpu/gemm/few_rows.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

namespace avx512_bf16 {
const FewRowsKernelsOf<bfloat16>& few_rows_kernels() {
  fail_without_x86();
}
const TileKernels& tile_kernels() {
  fail_without_x86();
}
void attention_forward_block(const TileKernels&, const TileForward&, int64_t, char*) {
  fail_without_x86();
}
void attention_one_query(const TileKernels&, const AttentionHead&, char*) {
  fail_without_x86();
}
void attention_backward_block(const TileKernels&, const TileBackward&, int64_t, int64_t, int64_t,
                              char*) {
  fail_without_x86();
}
}  // namespace avx512_bf16
namespace amx {
const TileKernels& tile_kernels() {
  fail_without_x86();
}
}  // namespace amx

}  // namespace viaduct::cpu

#endif
