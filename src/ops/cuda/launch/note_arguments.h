#pragma once
// The arguments of an op as bytes that are equal exactly for launches of equal kernels with equal
// arguments: addresses, shapes, strides, formats and numbers, field by field.

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fields_of.h"
#include "device/cuda/kept_launches.h"
#include "tensor/operand.h"

namespace viaduct::cuda {
namespace detail {

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T, size_t N>
inline constexpr bool kIsList<std::array<T, N>> = true;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

}  // namespace detail

inline void note_arguments(KeptLaunches& kept, const Shape& shape) {
  kept.note(shape.rank());
  for (int d = 0; d < shape.rank(); ++d) kept.note(shape.dim(d));
}

inline void note_arguments(KeptLaunches& kept, const Tensor& tensor) {
  kept.note(tensor.defined());
  if (!tensor) return;
  kept.note(tensor.raw());
  kept.note(tensor.dtype());
  note_arguments(kept, tensor.shape());
  for (int d = 0; d < tensor.rank(); ++d) kept.note(tensor.stride(d));
}

template <class T>
void note_arguments(KeptLaunches& kept, const T& value) {
  if constexpr (std::is_scalar_v<T>) {
    kept.note(value);
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    kept.note_text(value);
  } else if constexpr (detail::kIsOptional<T>) {
    kept.note(value.has_value());
    if (value) note_arguments(kept, *value);
  } else if constexpr (detail::kIsList<T>) {
    kept.note(value.size());
    for (const auto& entry : value) note_arguments(kept, entry);
  } else if constexpr (std::is_same_v<T, Operand>) {
    kept.note(value.defined());
    if (!value) return;
    note_arguments(kept, value.form());
    kept.note(value.dtype());
    note_arguments(kept, value.shape());
    kept.note(value.count());
    note_arguments(kept, value.values());
    note_arguments(kept, value.scales());
    note_arguments(kept, value.matrix_scale());
  } else {
    for_each_field(value, [&](const auto& field) { note_arguments(kept, field); });
  }
}

}  // namespace viaduct::cuda
