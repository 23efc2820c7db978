// A block of two warpgroups has a tile of 128 × 256, a warpgroup 64 rows of it. Tiles of the
// operands, 64 deep, are copied to a ring of four places: one is multiplied while the one before
// may still be, and two are on their way.

#include "ops/cuda/kernels/grouped_warpgroups.h"

#include "ops/cuda/kernels/grouped_tile.cuh"
#include "ops/cuda/kernels/swizzled_tile.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kRows = 128, kColumns = 256, kThreads = 256, kAhead = 2;
constexpr int kStages = kAhead + 2;

template <class T, bool kLastA, bool kLastB>
struct Stage {
  SwizzledTile<T, kLastA, kRows> a;
  SwizzledTile<T, kLastB, kColumns> b;
};

template <class T, bool kLastA, bool kLastB>
__device__ void multiply_experts(const GroupedProduct& args) {
  using Tiles = Stage<T, kLastA, kLastB>;
  constexpr int kDepth = SwizzledTile<T, kLastA, kRows>::kDepth, kEach = 16;
  constexpr int kSums = kColumns / 2;  // of a thread
  const auto tile = grouped_tile<T, kRows, kColumns>(args);
  if (!tile.there) return;  // the whole block
  auto* const stages = dynamic_shared<Tiles>();
  const int64_t steps = (tile.depth + kDepth - 1) / kDepth;
  const auto copy = [&](int64_t step) {
    if (step < steps) {
      Tiles& to = stages[step % kStages];
      const int64_t depth = step * kDepth;
      copy_tile<kThreads>(to.a, tile.a, args.a_stride, tile.row, tile.height, depth, tile.depth);
      copy_tile<kThreads>(to.b, tile.b, args.b_stride, tile.column, tile.width, depth, tile.depth);
    }
    commit_copies();
  };
  const int first = static_cast<int>(threadIdx.x) / kWarpgroupThreads * kWarpgroupRows;
  float sums[kSums] = {};
  for (int64_t step = 0; step < kAhead; ++step) copy(step);
  for (int64_t step = 0; step < steps; ++step) {
    wait_for_copies<kAhead - 1>();
    publish_writes();
    __syncthreads();  // the tiles are there, and those of the step before the last are read
    const Tiles& own = stages[step % kStages];
    begin_products();
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += kEach)
      multiply(sums, own.a.operand(first, depth), own.b.operand(0, depth), true);
    commit_products();
    copy(step + kAhead);
    wait_for_products<1>();
  }
  finish_products(sums);
  for_pairs<kSums>([&](int row, int column, int i) {
    const float pair[2] = {sums[i], sums[i + 1]};
    store_sums(args, tile, tile.row + first + row, tile.column + column, pair);
  });
}

template <class T, bool kLastA, bool kLastB>
__global__ void __launch_bounds__(kThreads, 1) grouped_warpgroups_kernel(GroupedProduct args) {
  if constexpr (kHasWarpgroups) multiply_experts<T, kLastA, kLastB>(args);
}

template <bool kLastA, bool kLastB>
void launch_form(const GroupedProduct& args, Stream stream) {
  const Grid grid(grouped_tiles(args, kRows, kColumns));
  const Block block(kThreads, kStages * sizeof(Stage<Bf16, kLastA, kLastB>));
  launch("grouped_warpgroups",
         args.format == Format::bf16 ? grouped_warpgroups_kernel<Bf16, kLastA, kLastB>
                                     : grouped_warpgroups_kernel<F16, kLastA, kLastB>,
         grid, block, stream, args);
}

}  // namespace

void grouped_warpgroups(const GroupedProduct& args, Stream stream) {
  for_form(args.form, [&](auto last_a, auto last_b) {
    launch_form<decltype(last_a)::value, decltype(last_b)::value>(args, stream);
  });
}

VIADUCT_KERNEL_FILE(grouped_warpgroups)

}  // namespace viaduct::cuda
