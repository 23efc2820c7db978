#pragma once
// The operands of an op as text, for traces: "bf16 [64, 512], f32 [512]".

#include <string>

#include "base/fields_of.h"
#include "tensor/operand.h"

namespace viaduct {

/// The tensors and operands among the fields of `args` in the order of their declaration; those
/// that are not there are left out, and so are those inside nested structs.
template <class Args>
std::string operand_shapes(const Args& args) {
  std::string text;
  for_each_field(args, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Tensor> || std::is_same_v<Field, Operand>) {
      if (!field.defined()) return;
      if (!text.empty()) text += ", ";
      text += describe(field);
    }
  });
  return text;
}

}  // namespace viaduct
