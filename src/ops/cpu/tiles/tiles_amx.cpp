#include <immintrin.h>

#include "hardware/cpu/tile_configuration.h"
#include "ops/cpu/tiles/tile_product.h"

namespace viaduct::cpu::amx {
namespace {

constexpr TileConfiguration kConfiguration;

// In assembler, because GCC's intrinsics paste the register's number as text (which a template does
// not have) and do not declare that loads read memory.
struct Registers {
  template <int kRegister>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
  }
  template <int kRegister>
  static void load(const void* from, int64_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "i"(kRegister)
                 : "memory");
  }
  template <int kRegister>
  static void stream_load(const void* from, int64_t bytes) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "i"(kRegister)
                 : "memory");
  }
  template <int kRegister>
  static void store(void* to, int64_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(bytes), "i"(kRegister) : "memory");
  }
  template <int kC, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};

void begin() {
  // GCC 12 assumes that the instruction reads only 8 of the 64 bytes and may drop the stores of the
  // others: a constant has no stores, and the barrier keeps this safe if the constant becomes a
  // local.
  asm volatile("" ::"r"(&kConfiguration) : "memory");
  _tile_loadconfig(&kConfiguration);
}

void end() {
  _tile_release();
}

}  // namespace

const TileKernels& tile_kernels() {
  static const TileKernels kKernels{avx512_bf16::tile_kernels().pack_a,
                                    avx512_bf16::tile_kernels().pack_b, tile_product<Registers>,
                                    begin, end};
  return kKernels;
}

}  // namespace viaduct::cpu::amx
