#pragma once
// The effect of quantization on each operand of linear layers and of experts, measured next to the
// products that read it: section `tensor_inspect`. Measuring changes no result.

#include <map>
#include <string>

#include "nn/context.h"
#include "ops/grouped_gemm.h"
#include "ops/reference/quantization_error.h"

namespace viaduct {

/// Of an operand, or of those of all experts of a layer together.
struct MeasuredOperand {
  reference::QuantizationError all;
  /// The expert whose operand, on one rank in one micro-batch, has the largest error; −1: no
  /// experts.
  int64_t worst_expert = -1;
  reference::QuantizationError worst;

  bool operator==(const MeasuredOperand&) const = default;
  void merge(const MeasuredOperand& other);
};

/// Whether quantization affects a more than b: elements that are not finite, then the
/// relative error.
bool is_worse(const reference::QuantizationError& a, const reference::QuantizationError& b);

class QuantizationLog {
 public:
  using Tensors = std::map<std::string, MeasuredOperand>;

  // Nothing happens for forms that are not quantized, and on devices that execute nothing.

  /// Adds `matrix`, as `form` represents it. `amax`, `rounding`: as in operand_in.
  void add(OpContext& context, const std::string& tensor, const Tensor& matrix,
           const OperandForm& form, const Tensor& amax, const StochasticRounding& rounding);
  /// Adds `matrix`, as `operand` represents it.
  void add(const std::string& tensor, const Tensor& matrix, const Operand& operand);
  /// Adds the rows `args.a` of all experts, as their product reads them. `first`: the number of the
  /// first expert.
  void add_rows(OpContext& context, const std::string& tensor, const GroupedGemmArgs& args,
                int64_t first);
  /// Adds the weights of experts [E · N, K], as the stack `operands` represents them.
  void add_weights(const std::string& tensor, const Tensor& weights, const Operand& operands,
                   int64_t first);
  bool has(const std::string& tensor) const { return tensors_.contains(tensor); }
  /// By name: the layer's path, then x (its input), w (its weight) or dy (the gradient of its
  /// output): "blocks.3.mlp.up dy", "blocks.3.mlp.experts.up dy" of all experts together.
  const Tensors& tensors() const { return tensors_; }
  void clear() { tensors_.clear(); }

 private:
  void add_expert(const std::string& tensor, int64_t expert,
                  const reference::QuantizationError& measured);

  Tensors tensors_;
};

}  // namespace viaduct
