#pragma once
// The operands of an op as text, for traces: "bf16 [64, 512], f32 [512]".

#include <string>
#include <type_traits>
#include <vector>

#include "base/fields_of.h"
#include "tensor/operand.h"

namespace viaduct {

template <class T>
struct is_list : std::false_type {};
template <class T>
struct is_list<std::vector<T>> : std::bool_constant<std::is_class_v<T>> {};

/// The tensors and operands among the fields of `args` in the order of their declaration, without
/// undefined ones and without those inside nested structs. For a list the first entry represents
/// all: "f32 [512] and 7 more".
template <class Args>
std::string operand_shapes(const Args& args) {
  std::string text;
  for_each_field(args, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Tensor> || std::is_same_v<Field, Operand>) {
      if (!field.defined()) return;
      if (!text.empty()) text += ", ";
      text += describe(field);
    } else if constexpr (is_list<Field>::value) {
      if (field.empty()) return;
      if (!text.empty()) text += ", ";
      if constexpr (std::is_same_v<typename Field::value_type, Tensor>)
        text += describe(field.front());
      else
        text += operand_shapes(field.front());
      if (field.size() > 1) text += " and " + std::to_string(field.size() - 1) + " more";
    }
  });
  return text;
}

}  // namespace viaduct
