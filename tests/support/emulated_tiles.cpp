#include "support/emulated_tiles.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "ops/cpu/tiles/tile_product.h"

namespace viaduct::test {
namespace {

struct File {
  bool configured = false;
  std::array<std::array<unsigned char, 1024>, 8> registers{};
};
File& file() {
  static thread_local File of_this_thread;
  return of_this_thread;
}
std::array<unsigned char, 1024>& at(int index) {
  if (!file().configured) throw std::logic_error("tile instruction without a configuration");
  return file().registers[static_cast<size_t>(index)];
}
template <class T>
T element(int index, int64_t position) {
  T value;
  std::memcpy(&value, at(index).data() + static_cast<size_t>(position) * sizeof value,
              sizeof value);
  return value;
}

/// kSkipped: a register of C that products leave out (−1: none).
template <int kSkipped>
struct Registers {
  template <int kRegister>
  static void zero() {
    at(kRegister).fill(0);
  }
  template <int kRegister>
  static void load(const void* from, int64_t bytes) {
    for (int64_t row = 0; row < 16; ++row)
      std::memcpy(at(kRegister).data() + row * 64, static_cast<const char*>(from) + row * bytes,
                  64);
  }
  template <int kRegister>
  static void stream_load(const void* from, int64_t bytes) {
    load<kRegister>(from, bytes);
  }
  template <int kRegister>
  static void store(void* to, int64_t bytes) {
    for (int64_t row = 0; row < 16; ++row)
      std::memcpy(static_cast<char*>(to) + row * bytes, at(kRegister).data() + row * 64, 64);
  }
  /// Sums even and odd products of a step separately, then adds both to C (Intel 64 manual,
  /// TDPBF16PS).
  template <int kC, int kA, int kB>
  static void multiply() {
    if (kC == kSkipped) return;
    for (int64_t m = 0; m < 16; ++m) {
      for (int64_t n = 0; n < 16; ++n) {
        float even = 0, odd = 0;
        for (int64_t k = 0; k < 16; ++k) {
          even += static_cast<float>(element<bfloat16>(kA, m * 32 + 2 * k)) *
                  static_cast<float>(element<bfloat16>(kB, k * 32 + 2 * n));
          odd += static_cast<float>(element<bfloat16>(kA, m * 32 + 2 * k + 1)) *
                 static_cast<float>(element<bfloat16>(kB, k * 32 + 2 * n + 1));
        }
        const float sum = element<float>(kC, m * 16 + n) + (even + odd);
        std::memcpy(at(kC).data() + (m * 16 + n) * 4, &sum, sizeof sum);
      }
    }
  }
};

bfloat16 source_at(const cpu::TileSource& s, int64_t i, int64_t k) {
  if (i >= s.width || k >= s.depth) return bfloat16(0.0f);
  const int64_t index = s.contracted_first ? k * s.stride + i : i * s.stride + k;
  if (s.dtype == DType::bf16) return static_cast<const bfloat16*>(s.data)[index];
  const float value = static_cast<const float*>(s.data)[index];
  return bfloat16(std::abs(value) < std::numeric_limits<float>::min() ? 0.0f : value);
}

template <bool kB>
void pack(const cpu::TileSource& source, bfloat16* to, int64_t strip) {
  for (int64_t i = 0; i < cpu::tile_strips(source.width) * 16; ++i) {
    for (int64_t k = 0; k < cpu::tile_steps(source.depth) * 32; ++k) {
      const int64_t inside = kB ? k % 32 / 2 * 32 + i % 16 * 2 + k % 2 : i % 16 * 32 + k % 32;
      to[i / 16 * strip + k / 32 * cpu::kTileElements + inside] = source_at(source, i, k);
    }
  }
}

void begin() {
  if (file().configured) throw std::logic_error("tiles configured twice");
  file().configured = true;
}
void end() {
  if (!file().configured) throw std::logic_error("tiles released without a configuration");
  file().configured = false;
}

}  // namespace

const cpu::TileKernels& emulated_amx_kernels() {
  static constexpr cpu::TileKernels kKernels{pack<false>, pack<true>,
                                             cpu::tile_product<Registers<-1>>, begin, end};
  return kKernels;
}

const cpu::TileKernels& broken_amx_kernels() {
  static constexpr cpu::TileKernels kKernels{pack<false>, pack<true>,
                                             cpu::tile_product<Registers<3>>, begin, end};
  return kKernels;
}

}  // namespace viaduct::test
