#include "nn/linear_bias.h"

#include <array>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/heads.h"

namespace viaduct {
namespace {

constexpr int64_t kDigits = 2, kParts = 3, kDigitBase = 256;
static_assert(kDigits * kParts <= kLinearBiasDims);
static_assert(kDigitBase * kDigitBase == kMostBiasedPositions);

template <class T>
T rounded_to(double value) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
  return T(static_cast<float>(value));
}

template <class T>
double widened(T value) {
  if constexpr (std::is_floating_point_v<T>) return value;
  return static_cast<double>(static_cast<float>(value));
}

/// Numbers of a format whose sum is `value` up to the rounding of the last.
template <class T>
std::array<T, kParts> parts_of(double value) {
  std::array<T, kParts> parts{};
  for (T& part : parts) {
    part = rounded_to<T>(value);
    value -= widened(part);
  }
  return parts;
}

/// A tensor [rows, columns] on the device, of the elements that `fill(row, column, T())` gives.
template <class Fill>
Tensor make_matrix(Device& device, int64_t rows, int64_t columns, DType dtype, const Fill& fill) {
  const Shape shape{rows, columns};
  const Tensor table = device.allocate(dtype, shape, MemoryTag::other);
  if (!device.executes()) return table;
  const Tensor host = host_tensor(dtype, shape);
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = host.data<T>();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) *to++ = fill(row, column, zero);
  });
  device.copy_from_host(host, table);
  return table;
}

/// [rows, kLinearBiasDims]: `fill(row, digit, part, T())`; the dims beyond are 0.
template <class Fill>
Tensor make_table(Device& device, int64_t rows, DType dtype, const Fill& fill) {
  return make_matrix(device, rows, kLinearBiasDims, dtype,
                     [&](int64_t row, int64_t column, auto zero) {
                       if (column >= kDigits * kParts) return zero;
                       return fill(row, column / kParts, column % kParts, zero);
                     });
}

void check_positions(int64_t positions) {
  VIADUCT_CHECK(ConfigError, positions <= kMostBiasedPositions,
                "model.position_embedding_type: alibi has rows of up to {} tokens, found {}",
                kMostBiasedPositions, positions);
}

}  // namespace

std::vector<double> linear_bias_slopes(int64_t heads, double largest_exponent) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  const auto slope = [&](int64_t k, int64_t of) {
    return std::exp2(-largest_exponent * static_cast<double>(k) / static_cast<double>(of));
  };
  for (int64_t k = 1; k <= power; ++k) slopes.push_back(slope(k, power));
  for (int64_t k = 1; std::ssize(slopes) < heads; k += 2) slopes.push_back(slope(k, 2 * power));
  return slopes;
}

LinearBiasTables make_linear_bias_tables(Device& device, const std::vector<double>& slopes,
                                         double scale, int64_t positions, DType dtype) {
  check_positions(positions);
  const auto of_head = [&](int64_t head, int64_t digit, int64_t part, auto format) {
    using T = decltype(format);
    const auto parts = parts_of<T>(slopes[static_cast<size_t>(head)] / scale);
    // The power of two is exact.
    return rounded_to<T>(widened(parts[static_cast<size_t>(part)]) * (digit == 0 ? 1 : kDigitBase));
  };
  const auto of_position = [](int64_t position, int64_t digit, int64_t, auto format) {
    const int64_t value = digit == 0 ? position % kDigitBase : position / kDigitBase;
    return rounded_to<decltype(format)>(static_cast<double>(value));
  };
  return {make_table(device, std::ssize(slopes), dtype, of_head),
          make_table(device, positions, dtype, of_position)};
}

LinearBiasTables make_rounded_bias_tables(Device& device, const std::vector<double>& slopes,
                                          int64_t kv_heads, int64_t positions, DType dtype) {
  check_positions(positions);
  const int64_t heads = std::ssize(slopes), group = heads / kv_heads;
  VIADUCT_CHECK(ConfigError, group <= kLinearBiasDims,
                "model.alibi_scaled: {} heads of queries for each of keys and values; expected at "
                "most {}, or false",
                group, kLinearBiasDims);
  const auto of_query = [&](int64_t head, int64_t column, auto format) {
    return rounded_to<decltype(format)>(column == head % group ? 1 : 0);
  };
  const auto rounded = [](double value) { return widened(rounded_to<bfloat16>(value)); };
  const auto of_key = [&](int64_t position, int64_t column, auto format) {
    using T = decltype(format);
    const int64_t place = column % kLinearBiasDims;
    if (place >= group) return rounded_to<T>(0);
    const int64_t head = column / kLinearBiasDims * group + place;
    return rounded_to<T>(rounded(rounded(slopes[static_cast<size_t>(head)]) *
                                 rounded(static_cast<double>(position))));
  };
  return {make_matrix(device, heads, kLinearBiasDims, dtype, of_query),
          make_matrix(device, positions, kv_heads * kLinearBiasDims, dtype, of_key)};
}

AttentionHeads add_linear_bias(RankContext& context, const LinearBiasTables& tables,
                               const Tensor& positions, const AttentionHeads& heads,
                               MemoryTag tag) {
  const int64_t width = heads.q.dim(2);
  const auto copy_of = [&](const Tensor& x, int64_t further) {
    const Tensor out = context.activation({x.dim(0), x.dim(1), x.dim(2) + further}, tag);
    copy(context.ops, {x, out.slice(2, 0, x.dim(2))});
    return out;
  };
  // A view of v would keep the memory of all three.
  const AttentionHeads out{copy_of(heads.q, kLinearBiasDims), copy_of(heads.k, kLinearBiasDims),
                           copy_of(heads.v, 0)};
  const int64_t columns = tables.positions.dim(1);
  const Tensor of_tokens = context.activation({positions.dim(0), columns}, MemoryTag::activations);
  embedding_forward(context.ops, {positions, tables.positions, of_tokens});
  const Tensor of_keys = out.k.slice(2, width, kLinearBiasDims);
  if (columns == kLinearBiasDims) {
    repeat_heads(context.ops, {of_tokens, of_keys});
  } else {
    copy(context.ops, {of_tokens.view(of_keys.shape()), of_keys});
  }
  // The same for every token: heads stand in the place of tokens.
  repeat_heads(context.ops,
               {tables.slopes, out.q.slice(2, width, kLinearBiasDims).transposed(0, 1)});
  return out;
}

AttentionHeads without_linear_bias(const AttentionHeads& gradients) {
  const auto without = [](const Tensor& x) { return x.slice(2, 0, x.dim(2) - kLinearBiasDims); };
  return {without(gradients.q), without(gradients.k), gradients.v};
}

}  // namespace viaduct
