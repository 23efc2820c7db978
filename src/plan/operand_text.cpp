#include "plan/operand_text.h"

#include <cstdlib>
#include <vector>

namespace viaduct {
namespace {

struct OperandText {
  std::string dtype;
  std::vector<int64_t> dims;
};

/// "bf16 [64, 512] as …, f32 [512]": each list in brackets and the word before it.
std::vector<OperandText> operands_of(const std::string& text) {
  std::vector<OperandText> operands;
  for (size_t open = text.find('['); open != std::string::npos; open = text.find('[', open + 1)) {
    OperandText operand;
    if (open >= 2) {
      const size_t space = text.rfind(' ', open - 2);
      const size_t begin = space == std::string::npos ? 0 : space + 1;
      operand.dtype = text.substr(begin, open - 1 - begin);
    }
    const char* at = text.c_str() + open + 1;
    while (*at != ']' && *at != '\0') {
      char* end = nullptr;
      const long long dim = std::strtoll(at, &end, 10);
      if (end == at) break;
      operand.dims.push_back(dim);
      at = end;
      while (*at == ',' || *at == ' ') ++at;
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

}  // namespace

std::optional<ProductSizes> product_sizes(const std::string& text) {
  const auto operands = operands_of(text);
  if (operands.size() < 3) return std::nullopt;
  for (size_t i = 0; i < 3; ++i)
    if (operands[i].dims.size() != 2) return std::nullopt;
  const auto &a = operands[0].dims, &b = operands[1].dims, &c = operands[2].dims;
  const std::string& dtype = operands[0].dtype;
  if (a[0] == c[0] && a[1] == b[1] && b[0] == c[1])
    return ProductSizes{"forward", dtype, a[0], b[0], b[1]};
  // The gradient of a gated activation has more columns than the product.
  if (a[0] == c[0] && a[1] == b[0] && (b[1] == c[1] || 2 * b[1] == c[1]))
    return ProductSizes{"data_gradient", dtype, a[0], b[0], b[1]};
  if (a[0] == b[0] && a[1] == c[0] && b[1] == c[1])
    return ProductSizes{"weight_gradient", dtype, a[0], a[1], b[1]};
  return std::nullopt;
}

std::optional<AttentionSizes> attention_sizes(const std::string& text) {
  const auto operands = operands_of(text);
  if (operands.size() < 2 || operands[0].dims.size() != 3 || operands[1].dims.size() != 3)
    return std::nullopt;
  const auto &q = operands[0].dims, &k = operands[1].dims;
  return AttentionSizes{operands[0].dtype, q[0], q[1], k[1], q[2]};
}

}  // namespace viaduct
