#include "checkpoint/gguf_weights.h"

#include <cstring>

#include "base/error.h"
#include "checkpoint/round_tensor.h"
#include "model/family.h"

namespace viaduct {
namespace {

using Change = GgufWeight::Change;

enum class Order { halves_to_pairs, pairs_to_halves };

Tensor reordered(const Tensor& tensor, const GgufWeight& weight, Order order) {
  const int64_t rows = tensor.rank() > 0 ? tensor.dim(0) : 0;
  Tensor result = host_tensor(tensor.dtype(), tensor.shape());
  const auto row_bytes = static_cast<size_t>(tensor.bytes() / std::max<int64_t>(rows, 1));
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t pair = row_in_gguf(row, rows, weight);
    const int64_t source = order == Order::halves_to_pairs ? row : pair;
    const int64_t target = order == Order::halves_to_pairs ? pair : row;
    std::memcpy(to + static_cast<size_t>(target) * row_bytes,
                from + static_cast<size_t>(source) * row_bytes, row_bytes);
  }
  return result;
}

Tensor transposed_copy(const Tensor& tensor, const std::string& name) {
  VIADUCT_CHECK(IoError, tensor.rank() == 2, "tensor \"{}\": {} is not a matrix", name,
                describe(tensor));
  const int64_t rows = tensor.dim(0), columns = tensor.dim(1);
  Tensor result = host_tensor(tensor.dtype(), {columns, rows});
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = tensor.data<T>();
    T* to = result.data<T>();
    constexpr int64_t kBlock = 32;
    for (int64_t top = 0; top < rows; top += kBlock) {
      for (int64_t left = 0; left < columns; left += kBlock) {
        for (int64_t r = top; r < std::min(rows, top + kBlock); ++r)
          for (int64_t c = left; c < std::min(columns, left + kBlock); ++c)
            to[c * rows + r] = from[r * columns + c];
      }
    }
  });
  return result;
}

Tensor shifted(const Tensor& tensor, double offset) {
  Tensor result = host_tensor(DType::f32, tensor.shape());
  auto* to = result.data<float>();
  for_each_value(tensor,
                 [&](int64_t i, double value) { to[i] = static_cast<float>(value + offset); });
  return result;
}

}  // namespace

std::string gguf_architecture(const std::string& family) {
  for (const char* same : {"llama", "qwen2", "qwen3", "gemma", "gemma2", "gpt2"})
    if (family == same) return family;
  if (family == "mistral") return "llama";
  fail<ConfigError>(
      "GGUF: models of the family {} cannot be converted (supported: gemma, gemma2, gpt2, llama, "
      "mistral, qwen2, qwen3)",
      family);
}

std::unordered_map<std::string, GgufWeight> gguf_weights(const ModelConfig& model) {
  const std::string architecture = gguf_architecture(model.family);
  const TensorNames& names = model_family(model.family).names;
  // llama.cpp rotates neighbours in this architecture, and halves in the others.
  const Change rotated =
      architecture == "llama" && !model.rotary.interleaved ? Change::pairs : Change::none;
  const Change matrix = names.transposed ? Change::transposed : Change::none;
  // The family's offset, which llama.cpp's files hold the sum with, whatever this model computes.
  const double added = model.norm_weight_offset;
  const Change norm = added != 0 ? Change::offset : Change::none;
  struct Module {
    const std::string& name;
    const char* gguf;
    Change weight;
    Change bias = Change::none;
    int64_t heads = 0;
  };
  const Module modules[] = {{names.token_embedding, "token_embd", Change::none},
                            {names.position_embedding, "position_embd", Change::none},
                            {names.final_norm, "output_norm", norm},
                            {names.head, "output", Change::none},
                            {names.input_norm, "blk.{}.attn_norm", norm},
                            {names.qkv, "blk.{}.attn_qkv", matrix},
                            {names.q, "blk.{}.attn_q", rotated, rotated, model.heads},
                            {names.k, "blk.{}.attn_k", rotated, rotated, model.kv_heads},
                            {names.v, "blk.{}.attn_v", matrix},
                            {names.q_norm, "blk.{}.attn_q_norm", norm},
                            {names.k_norm, "blk.{}.attn_k_norm", norm},
                            {names.projection, "blk.{}.attn_output", matrix},
                            {names.attention_output_norm, "blk.{}.post_attention_norm", norm},
                            {names.mlp_norm, "blk.{}.ffn_norm", norm},
                            {names.gate, "blk.{}.ffn_gate", matrix},
                            {names.up, "blk.{}.ffn_up", matrix},
                            {names.down, "blk.{}.ffn_down", matrix},
                            {names.mlp_output_norm, "blk.{}.post_ffw_norm", norm}};
  std::unordered_map<std::string, GgufWeight> weights;
  const auto add = [&](const Module& module, int64_t layer) {
    const std::string name = fmt::format(fmt::runtime(module.name), layer);
    const std::string gguf = fmt::format(fmt::runtime(module.gguf), layer);
    weights[gguf + ".weight"] = {name + ".weight", gguf + ".weight", module.weight, module.heads,
                                 added};
    weights[gguf + ".bias"] = {name + ".bias", gguf + ".bias", module.bias, module.heads, added};
  };
  for (const Module& module : modules) {
    if (module.name.empty()) continue;
    const bool repeated = module.name.find("{}") != std::string::npos;
    for (int64_t layer = 0; layer < (repeated ? model.layers : 1); ++layer) add(module, layer);
  }
  return weights;
}

int64_t row_in_gguf(int64_t row, int64_t rows, const GgufWeight& weight) {
  VIADUCT_CHECK(IoError, weight.heads > 0 && rows % (2 * weight.heads) == 0,
                "tensor \"{}\": {} rows are not pairs of {} heads", weight.name, rows,
                weight.heads);
  const int64_t dims = rows / weight.heads, half = dims / 2;
  const int64_t head = row / dims, dim = row % dims;
  return head * dims + 2 * (dim % half) + dim / half;
}

Tensor to_gguf(const Tensor& tensor, const GgufWeight& weight) {
  switch (weight.change) {
    case Change::pairs:
      return reordered(tensor, weight, Order::halves_to_pairs);
    case Change::transposed:
      return transposed_copy(tensor, weight.name);
    case Change::offset:
      return shifted(tensor, weight.offset);
    case Change::none:
      break;
  }
  return tensor;
}

Tensor from_gguf(const Tensor& tensor, const GgufWeight& weight) {
  switch (weight.change) {
    case Change::pairs:
      return reordered(tensor, weight, Order::pairs_to_halves);
    case Change::transposed:
      return transposed_copy(tensor, weight.gguf);
    case Change::offset:
      return shifted(tensor, -weight.offset);
    case Change::none:
      break;
  }
  return tensor;
}

Shape changed_shape(const Shape& shape, const GgufWeight& weight) {
  return weight.change == Change::transposed && shape.rank() == 2 ? Shape{shape[1], shape[0]}
                                                                  : shape;
}

}  // namespace viaduct
