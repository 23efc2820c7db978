#pragma once
// The effect of quantization on each operand of linear layers and of experts, measured next to the
// products that read it: section `tensor_inspect`. Measuring changes no result.

#include <map>
#include <string>
#include <vector>

#include "nn/context.h"
#include "ops/grouped_gemm.h"
#include "ops/quantization_error.h"

namespace viaduct {

/// Of an operand, or of those of all experts of a layer together.
struct MeasuredOperand {
  QuantizationError all;
  /// The expert whose operand has the largest error, over the micro-batches of one rank; −1: no
  /// experts.
  int64_t worst_expert = -1;
  QuantizationError worst;

  bool operator==(const MeasuredOperand&) const = default;
  void merge(const MeasuredOperand& other);
};

/// Whether quantization affects a more than b: elements that are not finite, then the
/// relative error.
bool is_worse(const QuantizationError& a, const QuantizationError& b);

class QuantizationLog {
 public:
  using Tensors = std::map<std::string, MeasuredOperand>;

  /// Clears the log of the last step.
  void begin_step(OpContext& context);

  // Sums are added to memory of the device, which the host reads once after the step. Nothing
  // happens for forms that are not quantized.

  /// Adds `matrix`, as `form` represents it. `amax`, `rounding`: as in operand_in.
  void add(OpContext& context, const std::string& tensor, const Tensor& matrix,
           const OperandForm& form, const Tensor& amax, const StochasticRounding& rounding);
  /// Adds the weight `matrix`, as `operand` represents it.
  void add_weight(OpContext& context, const std::string& tensor, const Tensor& matrix,
                  const Operand& operand);
  /// Adds the rows `args.a` of all experts, as their product reads them. `first`: the number of the
  /// first expert.
  void add_rows(OpContext& context, const std::string& tensor, const GroupedGemmArgs& args,
                int64_t first);
  /// Adds the weights of experts [E · N, K], as the stack `operands` represents them.
  void add_weights(OpContext& context, const std::string& tensor, const Tensor& weights,
                   const Operand& operands, int64_t first);
  /// Whether the step has added to `tensor`.
  bool has(const std::string& tensor) const;

  /// Reads the sums of the step from the device. By name: the layer's path, then x (its input), w
  /// (its weight) or dy (the gradient of its output): "blocks.3.mlp.up dy",
  /// "blocks.3.mlp.experts.up dy" of all experts together.
  Tensors read(Device& device) const;

 private:
  /// Where the sums of a tensor are: rows of a page, one for each expert.
  struct Place {
    size_t page = 0;
    int64_t begin = 0, count = 0;
    int64_t first_expert = -1;
    bool used = false;  // in this step
  };
  /// The sums [count, kErrorSums] of a tensor, which the step adds to.
  Tensor sums(OpContext& context, const std::string& tensor, int64_t count, int64_t first_expert);

  std::vector<Tensor> pages_;  // f64 [rows, kErrorSums]
  int64_t taken_ = 0;          // rows of the last page
  std::map<std::string, Place> places_;
};

}  // namespace viaduct
