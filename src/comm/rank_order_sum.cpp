#include "comm/rank_order_sum.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace viaduct {
namespace {

// Number of accumulators: they stay in the L1 cache while all sources are read.
constexpr int64_t kBlock = 1024;

template <ReduceOp op, class A>
A join(A sum, A value) {
  if constexpr (op == ReduceOp::max)
    return value > sum || value != value ? value : sum;
  else
    return sum + value;
}

template <ReduceOp op, class T, class A>
T rounded(A sum, A ranks) {
  if constexpr (op == ReduceOp::average)
    return static_cast<T>(sum / ranks);
  else
    return static_cast<T>(sum);
}

constexpr int64_t kLanes = 8;
using Vector = float __attribute__((vector_size(32)));
using Bits = uint32_t __attribute__((vector_size(32)));
using Halves = uint16_t __attribute__((vector_size(16)));

template <class V, class T>
V read(const T* from) {
  V vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

Vector widen(const float* from) {
  return read<Vector>(from);
}
Vector widen(const bfloat16* from) {
  return reinterpret_cast<Vector>(__builtin_convertvector(read<Halves>(from), Bits) << 16);
}

Vector narrow(Vector sum, float) {
  return sum;
}
/// As bfloat16's constructor: rounds to nearest even, NaN stays NaN.
Halves narrow(Vector sum, bfloat16) {
  const Bits bits = reinterpret_cast<Bits>(sum), nan = reinterpret_cast<Bits>(sum != sum);
  const Bits nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return __builtin_convertvector((nan & ((bits >> 16) | 0x40u)) | (~nan & nearest), Halves);
}

using SignedHalves = int16_t __attribute__((vector_size(16)));

#if defined(__F16C__)
Vector widen(const float16* from) {
  return __builtin_ia32_vcvtph2ps256(read<SignedHalves>(from));
}
SignedHalves narrow(Vector sum, float16) {
  return __builtin_ia32_vcvtps2ph256(sum, 0);
}
#else
Vector widen(const float16* from) {
  Vector values;
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(from[i]);
  return values;
}
SignedHalves narrow(Vector sum, float16) {
  float16 halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = static_cast<float16>(sum[i]);
  return read<SignedHalves>(halves);
}
#endif

/// Types that are summed in FP32, in one pass that keeps the sums in registers and reads whole
/// cache lines of one rank at a time: the ranks' buffers often have the same low address bits, and
/// a core that alternates between them within a line would evict the line each time. Returns the
/// number of elements done.
template <ReduceOp op, class T>
int64_t reduce_lines(std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
                     int64_t elements) {
  constexpr int64_t kVectors = sizeof(T) == 4 ? 8 : 4;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= elements; i += kVectors * kLanes) {
    Vector sum[kVectors];
    const T* first = reinterpret_cast<const T*>(sources[0]) + i;
    for (int64_t v = 0; v < kVectors; ++v) sum[v] = widen(first + v * kLanes);
    for (size_t rank = 1; rank < sources.size(); ++rank) {
      const T* next = reinterpret_cast<const T*>(sources[rank]) + i;
      for (int64_t v = 0; v < kVectors; ++v) {
        const Vector value = widen(next + v * kLanes);
        if constexpr (op == ReduceOp::max)
          sum[v] = (value > sum[v]) | (value != value) ? value : sum[v];
        else
          sum[v] += value;
      }
    }
    if constexpr (op == ReduceOp::average)
      for (Vector& s : sum) s /= static_cast<float>(sources.size());
    for (std::byte* out : outs) {
      T* to = reinterpret_cast<T*>(out) + i;
      for (int64_t v = 0; v < kVectors; ++v) {
        const auto result = narrow(sum[v], T{});
        std::memcpy(to + v * kLanes, &result, sizeof(result));
      }
    }
  }
  return i;
}

template <ReduceOp op, class T, class A>
void reduce_block(std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
                  int64_t begin, int64_t count) {
  const auto source = [&](size_t rank) {
    return reinterpret_cast<const T*>(sources[rank]) + begin;
  };
  A sum[kBlock];
  const T* first = source(0);
  for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<A>(first[i]);
  for (size_t rank = 1; rank < sources.size(); ++rank) {
    const T* next = source(rank);
    for (int64_t i = 0; i < count; ++i) sum[i] = join<op>(sum[i], static_cast<A>(next[i]));
  }
  const A ranks = static_cast<A>(sources.size());
  T result[kBlock];
  for (int64_t i = 0; i < count; ++i) result[i] = rounded<op, T, A>(sum[i], ranks);
  for (std::byte* out : outs)
    std::memcpy(reinterpret_cast<T*>(out) + begin, result, static_cast<size_t>(count) * sizeof(T));
}

template <ReduceOp op, class T, class A>
void reduce(std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
            int64_t elements) {
  int64_t begin = 0;
  if constexpr (std::is_same_v<A, float>) begin = reduce_lines<op, T>(sources, outs, elements);
  for (; begin < elements; begin += kBlock)
    reduce_block<op, T, A>(sources, outs, begin, std::min(kBlock, elements - begin));
}

template <class T, class A>
void reduce_as(ReduceOp op, std::span<const std::byte* const> sources,
               std::span<std::byte* const> outs, int64_t elements) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<ReduceOp::sum, T, A>(sources, outs, elements);
    case ReduceOp::average:
      return reduce<ReduceOp::average, T, A>(sources, outs, elements);
    case ReduceOp::max:
      return reduce<ReduceOp::max, T, A>(sources, outs, elements);
  }
}

/// Calls f(value, accumulator) with zeros of the element type and of the accumulation type of
/// `dtype`.
template <class F>
void with_types(DType dtype, F f) {
  if (dtype == DType::i64) return f(int64_t{}, int64_t{});
  const bool known = dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    f(element, std::conditional_t<std::is_same_v<T, double>, double, float>{});
  });
  VIADUCT_CHECK(CommError, known, "a reduction sums f64, f32, bf16, f16 and i64, not {}",
                dtype_name(dtype));
}

/// Calls f(a constant of type std::integral_constant) for `op`.
template <class F>
void with_op(ReduceOp op, F f) {
  switch (op) {
    case ReduceOp::sum:
      return f(std::integral_constant<ReduceOp, ReduceOp::sum>{});
    case ReduceOp::average:
      return f(std::integral_constant<ReduceOp, ReduceOp::average>{});
    case ReduceOp::max:
      return f(std::integral_constant<ReduceOp, ReduceOp::max>{});
  }
}

}  // namespace

DType partial_sum_dtype(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i64 ? dtype : DType::f32;
}

void begin_partial_sum(DType dtype, const std::byte* values, std::byte* sum, int64_t elements) {
  with_types(dtype, [&](auto value, auto accumulator) {
    const auto* from = reinterpret_cast<const decltype(value)*>(values);
    auto* to = reinterpret_cast<decltype(accumulator)*>(sum);
    for (int64_t i = 0; i < elements; ++i) to[i] = static_cast<decltype(accumulator)>(from[i]);
  });
}

void add_to_partial_sum(DType dtype, ReduceOp op, const std::byte* values, std::byte* sum,
                        int64_t elements) {
  with_types(dtype, [&](auto value, auto accumulator) {
    using A = decltype(accumulator);
    const auto* from = reinterpret_cast<const decltype(value)*>(values);
    A* to = reinterpret_cast<A*>(sum);
    with_op(op, [&](auto constant) {
      for (int64_t i = 0; i < elements; ++i)
        to[i] = join<constant.value>(to[i], static_cast<A>(from[i]));
    });
  });
}

void end_partial_sum(DType dtype, ReduceOp op, int ranks, const std::byte* sum, std::byte* out,
                     int64_t elements) {
  with_types(dtype, [&](auto value, auto accumulator) {
    using T = decltype(value);
    using A = decltype(accumulator);
    const A* from = reinterpret_cast<const A*>(sum);
    T* to = reinterpret_cast<T*>(out);
    with_op(op, [&](auto constant) {
      for (int64_t i = 0; i < elements; ++i)
        to[i] = rounded<constant.value, T, A>(from[i], static_cast<A>(ranks));
    });
  });
}

void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::byte* out, int64_t elements) {
  reduce_in_rank_order(dtype, op, sources, std::span<std::byte* const>(&out, 1), elements);
}

void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::span<std::byte* const> outs, int64_t elements) {
  with_types(dtype, [&](auto value, auto accumulator) {
    reduce_as<decltype(value), decltype(accumulator)>(op, sources, outs, elements);
  });
}

}  // namespace viaduct
