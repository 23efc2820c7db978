#pragma once
// The memory that an op's arguments name.

#include <type_traits>

#include "base/fields_of.h"
#include "tensor/operand.h"

namespace viaduct {

/// Calls f(tensor) for every tensor among the fields of `args`, also inside operands (values and
/// scales) and nested structs, and also where it is undefined.
template <class Args, class F>
void for_each_tensor(const Args& args, F&& f) {
  for_each_field(args, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Tensor>) {
      f(field);
    } else if constexpr (std::is_same_v<Field, Operand>) {
      f(field.values());
      f(field.scales());
    } else if constexpr (std::is_class_v<Field> && std::is_aggregate_v<Field>) {
      for_each_tensor(field, f);
    }
  });
}

}  // namespace viaduct
