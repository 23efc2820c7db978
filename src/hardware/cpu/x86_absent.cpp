// On other processors: the loops of the instruction sets of x86, which `measure_matmul_peak`
// refuses to run there.

#if !defined(__x86_64__)

#include "base/error.h"
#include "hardware/cpu/peak_loops.h"

namespace viaduct::cpu {
namespace {

[[noreturn]] void absent() {
  fail<DeviceError>("matmul peak: this loop is for x86 processors only");
}

}  // namespace

FmaLoop fma_loop_avx2() {
  absent();
}
FmaLoop fma_loop_avx512() {
  absent();
}
DotLoop dot_loop_avx512_bf16() {
  absent();
}
TileLoop tile_loop_amx() {
  absent();
}

}  // namespace viaduct::cpu

#endif
