#pragma once
// The sizes of products and attention, read from the text of an op's operands in a record
// (ops/operand_shapes.h).

#include <cstdint>
#include <optional>
#include <string>

namespace viaduct {

/// In the formulas of ops/gemm.h.
struct ProductSizes {
  std::string form;   // "forward", "data_gradient", "weight_gradient"
  std::string dtype;  // "bf16"
  int64_t m = 0, n = 0, k = 0;
};

/// Nothing if the operands are no product's. A square weight fits both forward and data gradient,
/// whose sizes are then the same: forward.
std::optional<ProductSizes> product_sizes(const std::string& operands);

struct AttentionSizes {
  std::string dtype;
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

/// Nothing if the first two operands are not queries and keys.
std::optional<AttentionSizes> attention_sizes(const std::string& operands);

}  // namespace viaduct
