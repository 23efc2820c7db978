#include "comm/rank_order_sum.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace viaduct {
namespace {

// Accumulators that stay in the first-level cache while all sources are read.
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

using Vector = float __attribute__((vector_size(32)));

Vector load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

void store(Vector vector, float* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// FP32 in one pass that keeps the sums in registers, whole cache lines of a rank at a time: ranks
/// are alike, so their buffers often have the same low address bits, and a core that goes from one
/// to the other within a line loses it each time.
template <ReduceOp op>
int64_t reduce_f32(std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
                   int64_t elements) {
  constexpr int64_t kVectors = 8, kLanes = 8;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= elements; i += kVectors * kLanes) {
    Vector sum[kVectors];
    const float* first = reinterpret_cast<const float*>(sources[0]) + i;
    for (int64_t v = 0; v < kVectors; ++v) sum[v] = load(first + v * kLanes);
    for (size_t rank = 1; rank < sources.size(); ++rank) {
      const float* next = reinterpret_cast<const float*>(sources[rank]) + i;
      for (int64_t v = 0; v < kVectors; ++v) {
        const Vector value = load(next + v * kLanes);
        if constexpr (op == ReduceOp::max)
          sum[v] = (value > sum[v]) | (value != value) ? value : sum[v];
        else
          sum[v] += value;
      }
    }
    if constexpr (op == ReduceOp::average)
      for (Vector& s : sum) s /= static_cast<float>(sources.size());
    for (std::byte* out : outs)
      for (int64_t v = 0; v < kVectors; ++v)
        store(sum[v], reinterpret_cast<float*>(out) + i + v * kLanes);
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
  if constexpr (std::is_same_v<T, float>) begin = reduce_f32<op>(sources, outs, elements);
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

}  // namespace

void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::byte* out, int64_t elements) {
  reduce_in_rank_order(dtype, op, sources, std::span<std::byte* const>(&out, 1), elements);
}

void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::span<std::byte* const> outs, int64_t elements) {
  if (dtype == DType::i64) return reduce_as<int64_t, int64_t>(op, sources, outs, elements);
  const bool known = dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    reduce_as<T, A>(op, sources, outs, elements);
  });
  VIADUCT_CHECK(CommError, known, "a reduction sums f64, f32, bf16, f16 and i64, not {}",
                dtype_name(dtype));
}

}  // namespace viaduct
