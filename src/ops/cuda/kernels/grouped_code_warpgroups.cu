// A block of two warpgroups has a tile of 128 × 128, a warpgroup 64 rows of it. A step multiplies
// 128 of the contracted dim, whose sums are then added to totals in FP32: matrix units of sm_90a
// add products of FP8 with fewer bits (DeepSeek-V3 technical report, section 3.3.2), and scales of
// groups change here. Tiles lie in a ring of four places. Those with the contracted dim last are
// copied; others are read a step before there is a place for them, and transposed into it.

#include "ops/cuda/kernels/grouped_tile.cuh"
#include "ops/cuda/kernels/grouped_warpgroups.h"
#include "ops/cuda/kernels/transposed_codes.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kTile = 128, kThreads = 256, kAhead = 3;
constexpr int kStages = kAhead + 1;

template <class A>
struct Stage {
  SwizzledTile<A, true, kTile> a;
  SwizzledTile<E4m3, true, kTile> b;
  StepScales<kTile> scales;
};

/// A thread's share of one operand's tiles.
template <class T, bool kLast>
struct Loader {
  const CodedOperand& from;
  ExpertCodes own;
  int64_t kept;  // where the tile begins
  CodeBlock block;

  __device__ Loader(const CodedOperand& from, int64_t expert, int64_t kept, int64_t most,
                    int64_t deep)
      : from(from),
        own(codes_of_expert(from, false, expert, kLast ? most : deep, kLast ? deep : most)),
        kept(kept) {}
  __device__ void read(int64_t depth) {
    if constexpr (!kLast) block = read_block(from, own, kept, depth);
  }
  /// `read` was called for this depth.
  __device__ void place(SwizzledTile<T, true, kTile>& to, int64_t depth) const {
    if constexpr (kLast) {
      copy_tile<kThreads>(to, reinterpret_cast<const T*>(own.values), from.stride, kept, own.rows,
                          depth, own.columns);
    } else {
      store_block(to, block);
    }
  }
  __device__ float scale(int64_t depth) const {
    return step_scale<kLast, kTile>(from, own, kept, depth);
  }
};

template <class A, bool kLastA, bool kLastB, bool kGroups>
__device__ void multiply_experts(const CodedProduct& args) {
  constexpr int kDepth = 128, kEach = 32, kSums = kTile / 2;  // sums of a thread
  const GroupedPlace tile = grouped_place<kTile, kTile>(args);
  if (!tile.there) return;  // the whole block
  Loader<A, kLastA> a(args.a, tile.expert, tile.row, tile.height, tile.depth);
  Loader<E4m3, kLastB> b(args.b, tile.expert, tile.column, tile.width, tile.depth);
  auto* const stages = dynamic_shared<Stage<A>>();
  const int64_t steps = (tile.depth + kDepth - 1) / kDepth;
  const int half = static_cast<int>(threadIdx.x) / kTile;
  float scale = 0;
  const auto read = [&](int64_t step) {
    const int64_t depth = step * kDepth;
    a.read(depth), b.read(depth);
    if constexpr (kGroups) scale = half == 0 ? a.scale(depth) : b.scale(depth);
  };
  const auto place = [&](int64_t step) {
    if (step < steps) {
      Stage<A>& to = stages[step % kStages];
      a.place(to.a, step * kDepth), b.place(to.b, step * kDepth);
      if constexpr (kGroups) to.scales.of[half][threadIdx.x % kTile] = scale;
    }
    commit_copies();
  };
  const int first = half * kWarpgroupRows;
  float sums[kSums] = {}, totals[kSums] = {};
  for (int64_t step = 0; step < kAhead; ++step) read(step), place(step);
  read(kAhead);
  for (int64_t step = 0; step < steps; ++step) {
    wait_for_copies<kAhead - 1>();
    publish_writes();
    __syncthreads();  // the tiles are there, and those of the step before are read
    const Stage<A>& own = stages[step % kStages];
    begin_products();
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += kEach)
      multiply(sums, own.a.operand(first, depth), own.b.operand(0, depth), depth > 0);
    commit_products();
    place(step + kAhead), read(step + kAhead + 1);
    finish_products(sums);
    for_pairs<kSums>([&](int row, int column, int i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if constexpr (kGroups) {
          totals[i + e] = fmaf(sums[i + e] * own.scales.of[0][first + row],
                               own.scales.of[1][column + e], totals[i + e]);
        } else {
          totals[i + e] += sums[i + e];
        }
      }
    });
  }
  // Without rows there is nothing that has a scale.
  const bool scaled = !kGroups && tile.depth > 0;
  const float of_a = scaled ? args.a.matrix_scales[tile.expert] : 1.0f;
  const float of_b = scaled ? args.b.matrix_scales[tile.expert] : 1.0f;
  for_pairs<kSums>([&](int row, int column, int i) {
    const float pair[2] = {totals[i] * of_a * of_b, totals[i + 1] * of_a * of_b};
    store_sums(args, tile, tile.row + first + row, tile.column + column, pair);
  });
}

template <class A, bool kLastA, bool kLastB, bool kGroups>
__global__ void __launch_bounds__(kThreads, 1) grouped_code_warpgroups_kernel(CodedProduct args) {
  if constexpr (kHasWarpgroups) multiply_experts<A, kLastA, kLastB, kGroups>(args);
}

template <class A, bool kLastA, bool kLastB>
void launch_form(const CodedProduct& args, Stream stream) {
  launch("grouped_code_warpgroups",
         args.group > 0 ? grouped_code_warpgroups_kernel<A, kLastA, kLastB, true>
                        : grouped_code_warpgroups_kernel<A, kLastA, kLastB, false>,
         Grid(grouped_tiles(args, kTile, kTile)), Block(kThreads, kStages * sizeof(Stage<A>)),
         stream, args);
}

template <class A>
void launch_elements(const CodedProduct& args, Stream stream) {
  for_form(args.form, [&](auto last_a, auto last_b) {
    launch_form<A, decltype(last_a)::value, decltype(last_b)::value>(args, stream);
  });
}

}  // namespace

void grouped_code_warpgroups(const CodedProduct& args, Stream stream) {
  args.a.e5m2 ? launch_elements<E5m2>(args, stream) : launch_elements<E4m3>(args, stream);
}

VIADUCT_KERNEL_FILE(grouped_code_warpgroups)

}  // namespace viaduct::cuda
