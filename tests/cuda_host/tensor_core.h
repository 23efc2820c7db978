#pragma once
// Products of a warp (mma.sync), loads of their operands (ldmatrix), and the start of a product of
// a warpgroup (wgmma), as PTX defines them, for g++. Kernels call them by the names of
// `ops/cuda/kernels/mma.cuh` and `warpgroup.cuh`.

#include "cuda_host/device.h"

namespace cuda_host {

inline constexpr unsigned kWholeWarp = ~0u;

/// A lane's part of d (16 × 8) += a (16 × 16) · b (16 × 8): 2 elements of 16 bits a register.
struct ProductLane {
  uint32_t a[4], b[2];
  float d[4];
};

/// The first and the second element of a register.
template <bool kBf16>
inline float element_of(uint32_t pair, int second) {
  const auto bits = static_cast<uint16_t>(second != 0 ? pair >> 16 : pair);
  if constexpr (kBf16) {
    return std::bit_cast<float>(uint32_t{bits} << 16);
  } else {
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
}

/// Lane 4g + t has from a the rows g and g + 8 in turn, columns 2t, 2t + 1, and then 8 further;
/// from b the rows 2t, 2t + 1, and 8 further, of column g; from d the rows g and g + 8, columns 2t,
/// 2t + 1.
template <bool kBf16>
void product_of_warp(Warp& warp) {
  float a[16][16], b[16][8], sums[16][8] = {};
  for (int lane = 0; lane < kWarp; ++lane) {
    ProductLane in;
    std::memcpy(&in, warp.in[lane], sizeof in);
    const int g = lane / 4, t = lane % 4;
    for (int second = 0; second < 2; ++second) {
      for (int i = 0; i < 4; ++i)
        a[g + i % 2 * 8][2 * t + i / 2 * 8 + second] = element_of<kBf16>(in.a[i], second);
      for (int i = 0; i < 2; ++i) b[2 * t + i * 8 + second][g] = element_of<kBf16>(in.b[i], second);
    }
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sums[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < kWarp; ++lane) {
    ProductLane in;
    std::memcpy(&in, warp.in[lane], sizeof in);
    for (int i = 0; i < 4; ++i) in.d[i] += sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    std::memcpy(warp.out[lane], in.d, sizeof in.d);
  }
}

inline void product(bool bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                    int line) {
  static_assert(sizeof(ProductLane) <= sizeof(Warp::in[0]) && sizeof d <= sizeof(Warp::out[0]));
  ProductLane in;
  std::memcpy(in.a, a, sizeof a);
  std::memcpy(in.b, b, sizeof b);
  std::memcpy(in.d, d, sizeof d);
  emulator().collective(kWholeWarp, named(kProduct, line), &in, sizeof in, d, sizeof d,
                        bf16 ? product_of_warp<true> : product_of_warp<false>);
}

/// Lane l gives the address of row l % 8 of matrix l / 8, of 8 × 8 elements of 16 bits. Of each
/// matrix, lane 4g + t gets elements 2t, 2t + 1 of row g; transposed: of column g.
template <int kCount, bool kTransposed>
void load_matrices(uint32_t (&to)[kCount], const void* row, int line) {
  emulator().check_shared(row, 16, "ldmatrix");
  if (emulator().lane() < 8 * kCount) emulator().note_read(row, 16);
  emulator().collective(
      kWholeWarp, named(kTransposed ? kLoadTransposed : kLoad, line), &row, sizeof row, to,
      sizeof to, [](Warp& warp) {
        for (int m = 0; m < kCount; ++m) {
          uint16_t matrix[8][8];
          for (int r = 0; r < 8; ++r) {
            const void* from;
            std::memcpy(&from, warp.in[m * 8 + r], sizeof from);
            std::memcpy(matrix[r], from, sizeof matrix[r]);
          }
          for (int lane = 0; lane < kWarp; ++lane) {
            const int g = lane / 4, t = lane % 4 * 2;
            const uint16_t pair[2] = {kTransposed ? matrix[t][g] : matrix[g][t],
                                      kTransposed ? matrix[t + 1][g] : matrix[g][t + 1]};
            std::memcpy(reinterpret_cast<char*>(warp.out[lane]) + m * 4, pair, sizeof pair);
          }
        }
      });
}

/// Starts d = a · bᵀ of the warpgroup, or d += where `product.add`.
inline void start_product(float* d, const WarpgroupProduct& product, int line) {
  emulator().start_product({d, product}, named(kWarpgroupProduct, line));
}

}  // namespace cuda_host
