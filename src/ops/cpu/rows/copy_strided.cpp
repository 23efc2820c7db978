#include "ops/cpu/rows/copy_strided.h"

#include <algorithm>
#include <type_traits>

namespace viaduct::cpu {
namespace {

// Square tiles: both a row-major and a transposed side then use whole cache lines.
constexpr int64_t kTile = 32;

/// The last two dims of a tensor, and their offset from the outer dims.
struct Plane {
  explicit Plane(const Tensor& t)
      : tensor(&t),
        rows(t.rank() >= 2 ? t.dim(-2) : 1),
        columns(t.rank() >= 1 ? t.dim(-1) : 1),
        row_stride(t.rank() >= 2 ? t.stride(-2) : 0),
        column_stride(t.rank() >= 1 ? t.stride(-1) : 0) {}
  int64_t offset(int64_t index) const {
    int64_t result = 0;
    for (int d = tensor->rank() - 3; d >= 0; --d) {
      result += index % tensor->dim(d) * tensor->stride(d);
      index /= tensor->dim(d);
    }
    return result;
  }

  const Tensor* tensor;
  int64_t rows, columns, row_stride, column_stride;
};

/// Calls element(from_offset, to_offset) for all elements.
template <class Element>
void for_elements(ThreadPool& pool, const CopyArgs& args, const Element& element) {
  const Plane from(args.from), to(args.to);
  const int64_t elements = args.to.elements();
  if (elements == 0) return;
  const int64_t planes = elements / (to.rows * to.columns);
  const int64_t tiles = (to.rows + kTile - 1) / kTile;
  pool.run(planes * tiles, [&](int64_t task, int) {
    const int64_t from_base = from.offset(task / tiles), to_base = to.offset(task / tiles);
    const int64_t row = task % tiles * kTile, row_end = std::min(to.rows, row + kTile);
    for (int64_t column = 0; column < to.columns; column += kTile) {
      const int64_t column_end = std::min(to.columns, column + kTile);
      for (int64_t r = row; r < row_end; ++r) {
        for (int64_t c = column; c < column_end; ++c)
          element(from_base + r * from.row_stride + c * from.column_stride,
                  to_base + r * to.row_stride + c * to.column_stride);
      }
    }
  });
}

/// Elements of equal dtype, by their size.
template <class Bits>
void copy_bits(ThreadPool& pool, const CopyArgs& args) {
  const Bits* from = static_cast<const Bits*>(args.from.raw());
  Bits* to = static_cast<Bits*>(args.to.raw());
  for_elements(pool, args, [=](int64_t source, int64_t target) { to[target] = from[source]; });
}

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<From, bfloat16>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void convert(ThreadPool& pool, const CopyArgs& args) {
  // FP32 arithmetic, FP64 into f64; a 16-bit format is reached through FP32.
  using Wide = std::conditional_t<std::is_same_v<To, double>, double, float>;
  const From* from = args.from.data<From>();
  To* to = args.to.data<To>();
  const bool accumulate = args.mode == WriteMode::accumulate;
  for_elements(pool, args, [=](int64_t source, int64_t target) {
    const Wide value = converted<Wide>(from[source]);
    to[target] = static_cast<To>(accumulate ? converted<Wide>(to[target]) + value : value);
  });
}

}  // namespace

void copy_strided(ThreadPool& pool, const CopyArgs& args) {
  if (args.from.dtype() == args.to.dtype() && args.mode == WriteMode::assign) {
    switch (dtype_bytes(args.to.dtype())) {
      case 1:
        return copy_bits<uint8_t>(pool, args);
      case 2:
        return copy_bits<uint16_t>(pool, args);
      case 4:
        return copy_bits<uint32_t>(pool, args);
      default:
        return copy_bits<uint64_t>(pool, args);
    }
  }
  dispatch_floating(args.from.dtype(), [&](auto from) {
    dispatch_floating(args.to.dtype(),
                      [&](auto to) { convert<decltype(from), decltype(to)>(pool, args); });
  });
}

}  // namespace viaduct::cpu
