#include "comm/rank_order_sum.h"

#include <algorithm>
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
void reduce(std::span<const std::byte* const> sources, T* out, int64_t elements) {
  const auto source = [&](size_t rank) { return reinterpret_cast<const T*>(sources[rank]); };
  const A ranks = static_cast<A>(sources.size());
  A sum[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, elements - begin);
    const T* first = source(0) + begin;
    for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<A>(first[i]);
    for (size_t rank = 1; rank < sources.size(); ++rank) {
      const T* next = source(rank) + begin;
      for (int64_t i = 0; i < count; ++i) sum[i] = join<op>(sum[i], static_cast<A>(next[i]));
    }
    T* to = out + begin;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (op == ReduceOp::average)
        to[i] = static_cast<T>(sum[i] / ranks);
      else
        to[i] = static_cast<T>(sum[i]);
    }
  }
}

template <class T, class A>
void reduce_as(ReduceOp op, std::span<const std::byte* const> sources, std::byte* out,
               int64_t elements) {
  T* const to = reinterpret_cast<T*>(out);
  switch (op) {
    case ReduceOp::sum:
      return reduce<ReduceOp::sum, T, A>(sources, to, elements);
    case ReduceOp::average:
      return reduce<ReduceOp::average, T, A>(sources, to, elements);
    case ReduceOp::max:
      return reduce<ReduceOp::max, T, A>(sources, to, elements);
  }
}

}  // namespace

void reduce_in_rank_order(DType dtype, ReduceOp op, std::span<const std::byte* const> sources,
                          std::byte* out, int64_t elements) {
  if (dtype == DType::i64) return reduce_as<int64_t, int64_t>(op, sources, out, elements);
  const bool known = dispatch_floating(dtype, [&](auto element) {
    using T = decltype(element);
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    reduce_as<T, A>(op, sources, out, elements);
  });
  VIADUCT_CHECK(CommError, known, "a reduction sums f64, f32, bf16, f16 and i64, not {}",
                dtype_name(dtype));
}

}  // namespace viaduct
