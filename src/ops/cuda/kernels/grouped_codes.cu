// The matrix units multiply FP16, which has the numbers of all codes: mma.sync of FP8 operands
// would be the same, since both generations with FP8 products have it as conversions to FP16 and
// products of that (their units for FP8 are those of wgmma, grouped_code_warpgroups.cu, and
// tcgen05). A block has a tile of 64 ×
// 64, as in grouped_gemm.cu; codes of the next tiles are read while the last ones are multiplied.

#include "ops/cuda/kernels/grouped_codes.h"

#include "ops/cuda/kernels/coded_tile.cuh"
#include "ops/cuda/kernels/grouped_tile.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kTile = static_cast<int>(kGroupedTile), kDepth = kGroupedDepth;

/// What the elements of both operands have besides their codes.
enum class Scaled : uint8_t {
  matrices,  // FP8, one scale for each matrix
  sums,      // FP8 with scales of groups, which multiply the sums of a group
  numbers,   // E2M1 with scales of groups, which multiply the codes, and one for each matrix
};

template <bool kLastA, bool kLastB>
struct ScaledTiles {
  SharedTiles<kLastA, kLastB> tiles;
  StepScales<kTile> scales[kGroupedStages];
};

/// total += sums · their scales; then sums = 0.
__device__ void scale_sums(QuarterSums& total, QuarterSums& sums, const StepScales<kTile>& scales,
                           int row, int column) {
  for_quarter(row, column, [&](int r, int c, int i, int j, int e) {
    total.d[i][j][e] = fmaf(sums.d[i][j][e] * scales.of[0][r], scales.of[1][c], total.d[i][j][e]);
    sums.d[i][j][e] = 0;
  });
}

template <bool kLastA, bool kLastB, Scaled kScaled>
__global__ void __launch_bounds__(kGroupedThreads)
    grouped_codes_kernel(CodedProduct args, bool wide) {
  constexpr bool kHalves = kScaled == Scaled::numbers;
  const GroupedPlace tile = grouped_place(args);
  if (!tile.there) return;  // the whole block
  auto& memory = shared<ScaledTiles<kLastA, kLastB>>();
  const int64_t depth = args.complete ? (tile.depth + 15) / 16 * 16 : tile.depth;
  const ExpertCodes a = codes_of_expert(args.a, kHalves, tile.expert, kLastA ? tile.height : depth,
                                        kLastA ? depth : tile.height);
  const ExpertCodes b = codes_of_expert(args.b, kHalves, tile.expert, kLastB ? tile.width : depth,
                                        kLastB ? depth : tile.width);
  const int64_t steps = (depth + kDepth - 1) / kDepth;
  const int64_t steps_of_group = kScaled == Scaled::sums ? args.group / kDepth : steps;
  CodeRun<kHalves> codes_a, codes_b;
  float scale = 0;
  const auto read = [&](int64_t step) {
    const int64_t at = step * kDepth;
    codes_a = read_codes<kLastA, kHalves>(args.a, a, kLastA ? tile.row : at, kLastA ? at : tile.row,
                                          wide);
    codes_b = read_codes<kLastB, kHalves>(args.b, b, kLastB ? tile.column : at,
                                          kLastB ? at : tile.column, wide);
    if constexpr (kScaled == Scaled::sums) {
      scale = threadIdx.x < kTile ? step_scale<kLastA, kTile>(args.a, a, tile.row, at)
                                  : step_scale<kLastB, kTile>(args.b, b, tile.column, at);
    }
  };
  const auto store = [&](int64_t step) {
    const auto stage = static_cast<int>(step % kGroupedStages);
    SharedTile<kLastA>& to_a = memory.tiles.a[stage];
    SharedTile<kLastB>& to_b = memory.tiles.b[stage];
    if constexpr (kHalves) {
      const int64_t at = step * kDepth;
      store_scaled(to_a, args.a, a, kLastA ? tile.row : at, kLastA ? at : tile.row, codes_a);
      store_scaled(to_b, args.b, b, kLastB ? tile.column : at, kLastB ? at : tile.column, codes_b);
    } else {
      store_codes(to_a, args.a, codes_a);
      store_codes(to_b, args.b, codes_b);
    }
    if constexpr (kScaled == Scaled::sums)
      memory.scales[stage].of[threadIdx.x / kTile][threadIdx.x % kTile] = scale;
  };
  const int row = quarter_row(), column = quarter_column();
  QuarterSums sums, total;
  if (steps > 0) read(0), store(0);
  for (int64_t step = 0; step < steps; ++step) {
    __syncthreads();
    const bool more = step + 1 < steps;
    if (more) read(step + 1);
    const auto stage = static_cast<int>(step % kGroupedStages);
    multiply_tiles<F16>(sums, memory.tiles.a[stage], memory.tiles.b[stage], row, column);
    if constexpr (kScaled == Scaled::sums) {
      if (!more || (step + 1) % steps_of_group == 0)
        scale_sums(total, sums, memory.scales[stage], row, column);
    }
    if (more) store(step + 1);
  }
  // Without rows there is nothing that has a scale.
  const bool scales = kScaled != Scaled::sums && depth > 0;
  const float of_a = scales ? args.a.matrix_scales[tile.expert] : 1.0f;
  const float of_b = scales ? args.b.matrix_scales[tile.expert] : 1.0f;
  for_quarter(row, column, [&](int r, int c, int i, int j, int e) {
    const float sum = kScaled == Scaled::sums ? total.d[i][j][e] : sums.d[i][j][e] * of_a * of_b;
    store_sum(args, tile, tile.row + r, tile.column + c, sum);
  });
}

/// Whether 16 codes at any multiple of 16 may be read at once.
bool reads_runs(const CodedOperand& operand) {
  return is_wide(operand.values) && operand.stride % kCodeRun == 0;
}

template <bool kLastA, bool kLastB>
void launch_form(const CodedProduct& args, Stream stream) {
  launch("grouped_codes",
         args.halves      ? grouped_codes_kernel<kLastA, kLastB, Scaled::numbers>
         : args.group > 0 ? grouped_codes_kernel<kLastA, kLastB, Scaled::sums>
                          : grouped_codes_kernel<kLastA, kLastB, Scaled::matrices>,
         Grid(grouped_tiles(args)), kGroupedThreads, stream, args,
         reads_runs(args.a) && reads_runs(args.b));
}

}  // namespace

void grouped_codes(const CodedProduct& args, Stream stream) {
  for_form(args.form, [&](auto last_a, auto last_b) {
    launch_form<decltype(last_a)::value, decltype(last_b)::value>(args, stream);
  });
}

VIADUCT_KERNEL_FILE(grouped_codes)

}  // namespace viaduct::cuda
