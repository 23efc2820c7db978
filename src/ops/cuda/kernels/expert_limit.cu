// The limit on the tokens of experts: a block has an expert, or a run of them, whose choices lie
// together in the order of tokens. By probability it finds the one of number `capacity` digit by
// digit, the largest digits first, and keeps what is above it and as many of its equals as there is
// room for.

#include "ops/cuda/kernels/block_scan.cuh"
#include "ops/cuda/kernels/expert_order.h"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256, kBits = 8, kBuckets = 1 << kBits;

struct Digits {
  uint32_t count[kBuckets];
  int64_t chosen;  // the digit of the last one that stays
  int64_t room;    // for those with this digit
};

/// Orders as probabilities do: NaN is the largest, zeros are equal.
__device__ uint32_t key_of(float p) {
  if (p != p) return ~0u;
  const uint32_t bits = p == 0 ? 0 : __float_as_uint(p);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

/// Of a segment of choices, those from `begin` on.
struct Segment {
  const ExpertLimit& args;
  int64_t begin, end;

  __device__ int64_t choice(int64_t at) const { return args.choices.sorted[at].token; }
  __device__ uint32_t key(int64_t at) const { return key_of(args.probabilities[choice(at)]); }
  __device__ void drop(int64_t at) const {
    args.choice[choice(at)] = -1;
    args.probabilities[choice(at)] = 0;
  }
};

/// The key of the last choice that stays; `room`: how many equal to it do.
__device__ uint32_t last_key(const Segment& segment, int64_t& room) {
  auto& digits = shared<Digits>();
  uint32_t prefix = 0;
  room = segment.args.capacity;
  for (int shift = 32 - kBits; shift >= 0; shift -= kBits) {
    digits.count[threadIdx.x] = 0;
    __syncthreads();
    const uint32_t above = shift + kBits < 32 ? ~0u << (shift + kBits) : 0;
    for (int64_t at = segment.begin + threadIdx.x; at < segment.end; at += kThreads) {
      const uint32_t key = segment.key(at);
      if ((key & above) == prefix) atomicAdd(&digits.count[key >> shift & (kBuckets - 1)], 1u);
    }
    __syncthreads();
    // Thread i has the digit 255 − i: those before it are larger.
    const uint32_t own = digits.count[kBuckets - 1 - threadIdx.x];
    const auto larger = static_cast<int64_t>(sum_before<kThreads>(own));
    if (larger < room && larger + own >= room) {
      digits.chosen = kBuckets - 1 - static_cast<int64_t>(threadIdx.x);
      digits.room = room - larger;
    }
    __syncthreads();
    prefix |= static_cast<uint32_t>(digits.chosen) << shift;
    room = digits.room;
  }
  return prefix;
}

__device__ void limit_by_probability(const Segment& segment) {
  int64_t room = 0;
  const uint32_t last = last_key(segment, room);
  int64_t equal = 0;  // so far, of all threads
  for (int64_t first = segment.begin; first < segment.end; first += kThreads) {
    const int64_t at = first + threadIdx.x;
    const bool present = at < segment.end;
    const uint32_t key = present ? segment.key(at) : ~0u;
    const int64_t is_equal = present && key == last ? 1 : 0;
    const int64_t before = equal + sum_before<kThreads>(is_equal);
    auto& digits = shared<Digits>();
    if (threadIdx.x == kThreads - 1) digits.room = before + is_equal;
    __syncthreads();
    equal = digits.room;
    if (present && (key < last || (key == last && before >= room))) segment.drop(at);
  }
}

__global__ void __launch_bounds__(kThreads) limit_experts_kernel(ExpertLimit args) {
  const int32_t* const begin = args.choices.begin;
  const Segment segment{args, begin[blockIdx.x], begin[blockIdx.x + 1]};
  if (segment.end - segment.begin <= args.capacity) return;  // the whole block
  if (args.by_probability) return limit_by_probability(segment);
  for (int64_t at = segment.begin + args.capacity + threadIdx.x; at < segment.end; at += kThreads)
    segment.drop(at);
}

}  // namespace

void limit_experts(const ExpertLimit& args, Stream stream) {
  static_assert(kThreads == kBuckets);
  find_begins(args.choices, stream);
  launch("limit_experts", limit_experts_kernel, Grid(args.choices.experts), kThreads, stream, args);
}

VIADUCT_KERNEL_FILE(expert_limit)

}  // namespace viaduct::cuda
