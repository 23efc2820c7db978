#pragma once
// What the quantization of each operand of linear layers does to it, measured beside the products
// that read it: section `tensor_inspect`. Measuring changes no result.

#include <map>
#include <string>

#include "nn/context.h"
#include "ops/reference/quantization_error.h"

namespace viaduct {

class QuantizationLog {
 public:
  using Tensors = std::map<std::string, reference::QuantizationError>;

  // Nothing happens for forms that are not quantized, and on devices that execute nothing.

  /// Adds `matrix`, as `form` represents it. `amax`, `rounding`: as in operand_in.
  void add(OpContext& context, const std::string& tensor, const Tensor& matrix,
           const OperandForm& form, const Tensor& amax, const StochasticRounding& rounding);
  /// Adds `matrix`, as `operand` represents it.
  void add(const std::string& tensor, const Tensor& matrix, const Operand& operand);
  bool has(const std::string& tensor) const { return tensors_.contains(tensor); }
  /// By name: the layer's path, then x (its input), w (its weight) or dy (the gradient of its
  /// output): "blocks.3.mlp.up dy".
  const Tensors& tensors() const { return tensors_; }
  void clear() { tensors_.clear(); }

 private:
  Tensors tensors_;
};

}  // namespace viaduct
