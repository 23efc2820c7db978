// A stable radix sort of tokens by row, without atomics: in each pass a block counts the digits of
// its tokens, and then places them behind the equal digits of earlier blocks, earlier warps and
// earlier lanes.

#include "ops/cuda/kernels/embedding.h"
#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = kDigits;  // a thread for each digit when counts are added up
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kTokensPerWarp = static_cast<int>(kTokensPerBlock) / kWarps;

struct DigitCounts {
  int32_t of_warp[kWarps][kDigits];
  int32_t total[2][kDigits];  // for a scan, in turns
};

struct SortPass {
  TokenSort sort;
  const TokenOfRow* from;  // null: the ids
  TokenOfRow* to;
  int shift;
};

__device__ TokenOfRow token_at(const SortPass& pass, int64_t at) {
  if (pass.from != nullptr) return pass.from[at];
  const int64_t id = pass.sort.ids[at], row = id - pass.sort.first_row;
  const bool none = row < 0 || row >= pass.sort.rows || id == pass.sort.padding_id;
  return {static_cast<int32_t>(none ? pass.sort.rows : row), static_cast<int32_t>(at)};
}

/// The lanes of this warp whose digit is this lane's, of those that have a token.
__device__ unsigned lanes_with(int digit, bool present) {
  unsigned lanes = __ballot_sync(kAllLanes, present);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const unsigned set = __ballot_sync(kAllLanes, digit >> bit & 1);
    lanes &= (digit >> bit & 1) != 0 ? set : ~set;
  }
  return lanes;
}

/// Calls f(token, count of the digit so far, earlier lanes with the digit) for each of the warp's
/// tokens, 32 at a time and in order, and adds them to the warp's counts.
template <class F>
__device__ void for_tokens(const SortPass& pass, int32_t (&counts)[kDigits], F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int64_t begin = blockIdx.x * kTokensPerBlock + int64_t{warp} * kTokensPerWarp;
  for (int64_t at = begin + lane; at < begin + kTokensPerWarp; at += kWarpLanes) {
    const bool present = at < pass.sort.tokens;
    const TokenOfRow token = present ? token_at(pass, at) : TokenOfRow{0, 0};
    const int digit = token.row >> pass.shift & (kDigits - 1);
    const unsigned lanes = lanes_with(digit, present);
    const int earlier = __popc(lanes & ((1u << lane) - 1));
    if (present) f(token, counts[digit], earlier);
    __syncwarp();  // all lanes have read the counts
    if (present && earlier == 0) counts[digit] += __popc(lanes);
    __syncwarp();  // they are there for the next 32
  }
}

/// Counts the digits of each warp's tokens.
__device__ void count_digits(const SortPass& pass, DigitCounts& counts) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  for (int w = 0; w < kWarps; ++w) counts.of_warp[w][threadIdx.x] = 0;
  __syncthreads();
  for_tokens(pass, counts.of_warp[warp], [](TokenOfRow, int32_t, int) {});
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) count_kernel(SortPass pass) {
  auto& counts = shared<DigitCounts>();
  count_digits(pass, counts);
  int32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += counts.of_warp[w][threadIdx.x];
  pass.sort.counts[int64_t{blockIdx.x} * kDigits + threadIdx.x] = sum;
}

/// Where this block's tokens with digit threadIdx.x begin: behind all smaller digits, and behind
/// the same digit of earlier blocks.
__device__ int32_t begin_of_digit(const SortPass& pass, DigitCounts& counts) {
  const auto digit = static_cast<int>(threadIdx.x);
  const int64_t blocks = gridDim.x;
  int32_t all = 0, before = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const int32_t count = pass.sort.counts[b * kDigits + digit];
    all += count;
    if (b < blockIdx.x) before += count;
  }
  counts.total[0][digit] = all;
  __syncthreads();
  int turn = 0;
  for (int step = 1; step < kDigits; step *= 2, turn ^= 1) {
    const int32_t sum = counts.total[turn][digit];
    counts.total[turn ^ 1][digit] = digit >= step ? sum + counts.total[turn][digit - step] : sum;
    __syncthreads();
  }
  return counts.total[turn][digit] - all + before;
}

__global__ void __launch_bounds__(kThreads) place_kernel(SortPass pass) {
  auto& counts = shared<DigitCounts>();
  count_digits(pass, counts);
  int32_t place = begin_of_digit(pass, counts);
  for (int w = 0; w < kWarps; ++w) {  // each warp's counts become its places
    const int32_t count = counts.of_warp[w][threadIdx.x];
    counts.of_warp[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  for_tokens(pass, counts.of_warp[warp], [&](TokenOfRow token, int32_t first, int earlier) {
    pass.to[first + earlier] = token;
  });
}

}  // namespace

const TokenOfRow* sort_tokens(const TokenSort& args, Stream stream) {
  const Grid grid(blocks_for(args.tokens, kTokensPerBlock));
  const TokenOfRow* from = nullptr;
  for (int p = 0; p < args.passes; ++p) {
    const SortPass pass{args, from, args.buffers[p % 2], p * kDigitBits};
    launch("count_digits", count_kernel, grid, kThreads, stream, pass);
    launch("place_tokens", place_kernel, grid, kThreads, stream, pass);
    from = pass.to;
  }
  return from;
}

VIADUCT_KERNEL_FILE(sort_tokens)

}  // namespace viaduct::cuda
