#pragma once
// Visits the tensors among an op's arguments.

#include <type_traits>
#include <vector>

#include "base/fields_of.h"
#include "tensor/operand.h"

namespace viaduct {
namespace detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

}  // namespace detail

/// Calls f(tensor) for every tensor in `value`, undefined ones included: a tensor itself, an
/// operand's values and scales (three tensors), the tensors of a plain struct's fields, and those
/// of a list's entries.
template <class T, class F>
void for_each_tensor(const T& value, F&& f) {
  if constexpr (std::is_same_v<T, Tensor>) {
    f(value);
  } else if constexpr (std::is_same_v<T, Operand>) {
    f(value.values());
    f(value.scales());
    f(value.matrix_scale());
  } else if constexpr (detail::kIsVector<T>) {
    for (const auto& entry : value) for_each_tensor(entry, f);
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) {
    for_each_field(value, [&](const auto& field) { for_each_tensor(field, f); });
  }
}

}  // namespace viaduct
