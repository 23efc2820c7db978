#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC11). A number is a pure function of (key, counter), so it does
// not depend on layout, thread or order.

#include <array>
#include <cstdint>

namespace viaduct {

/// Key of a stream of random numbers: (run seed, 64-bit hash of the module path with global layer
/// number).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t path_hash = 0;
};

/// 128 random bits for (key, counter); `high` and `low` are the two 64-bit halves of the counter.
inline std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low,
                                          uint64_t counter_high) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c{
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMul0} * c[0];
    const uint64_t p1 = uint64_t{kMul1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

/// The 64-bit Philox key of a random stream: seed and path mixed so that equal xors do not collide.
inline uint64_t philox_key(const RandomKey& key) {
  uint64_t x = key.seed * 0x9E3779B97F4A7C15ull + key.path_hash;
  x ^= x >> 30, x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27, x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Uniform in (0, 1), never 0 or 1: 2^-24 … 1 − 2^-24 in steps of 2^-23.
inline float uniform_open(uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace viaduct
