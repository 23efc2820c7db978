// The figures are those of llama.cpp's own quantizer, so that a name means the same files: the
// mixtures and the types of smaller blocks from src/llama-quant.cpp (llama_tensor_get_type_impl,
// tensor_type_fallback), the numbers from include/llama.h (llama_ftype), as of llama-cpp-python
// 0.3.36.

#include "checkpoint/gguf_mixture.h"

#include <charconv>
#include <optional>

#include "checkpoint/gguf_weights.h"

namespace viaduct {
namespace {

using Type = GgufTensorType;

/// Which layers have the wider type.
enum class Layers { none, first_four, first_eighth, first_and_last_eighth_and_each_third };

struct Wider {
  Layers layers = Layers::none;
  Type type = Type::f32;
};

struct Mixture {
  ExportFormat format;
  int file_type;
  Type most, output;
  Wider values;  // attn_v, attn_qkv
  Wider downs;   // ffn_down
};

constexpr Wider kSpreadQ6{Layers::first_and_last_eighth_and_each_third, Type::q6_k};
constexpr Mixture kMixtures[] = {
    {ExportFormat::q8_0, 7, Type::q8_0, Type::q8_0, {}, {}},
    {ExportFormat::q4_0, 2, Type::q4_0, Type::q6_k, {}, {}},
    {ExportFormat::q4_1, 3, Type::q4_1, Type::q6_k, {}, {}},
    {ExportFormat::q5_0, 8, Type::q5_0, Type::q6_k, {}, {}},
    {ExportFormat::q5_1, 9, Type::q5_1, Type::q6_k, {}, {}},
    {ExportFormat::q4_k_s,
     14,
     Type::q4_k,
     Type::q6_k,
     {Layers::first_four, Type::q5_k},
     {Layers::first_eighth, Type::q5_k}},
    {ExportFormat::q4_k_m, 15, Type::q4_k, Type::q6_k, kSpreadQ6, kSpreadQ6},
    {ExportFormat::q5_k_s, 16, Type::q5_k, Type::q6_k, {}, {}},
    {ExportFormat::q5_k_m, 17, Type::q5_k, Type::q6_k, kSpreadQ6, kSpreadQ6},
    {ExportFormat::q6_k, 18, Type::q6_k, Type::q6_k, {}, {}},
};

const Mixture& mixture_of(ExportFormat format) {
  for (const Mixture& mixture : kMixtures)
    if (mixture.format == format) return mixture;
  return kMixtures[0];  // callers have a format of GGUF
}

bool among(Layers layers, int64_t layer, int64_t count) {
  const int64_t eighth = count / 8;
  switch (layers) {
    case Layers::none:
      return false;
    case Layers::first_four:
      return layer < 4;
    case Layers::first_eighth:
      return layer < eighth;
    case Layers::first_and_last_eighth_and_each_third:
      return layer < eighth || layer >= 7 * count / 8 || (layer - eighth) % 3 == 2;
  }
  return false;
}

/// The number in "blk.NUMBER.", and the name after it.
std::optional<std::pair<int64_t, std::string_view>> in_layer(std::string_view name) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return std::nullopt;
  name.remove_prefix(kLayer.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc()) return std::nullopt;
  return std::pair{layer, name.substr(static_cast<size_t>(end - name.data()))};
}

/// Llama 2 70B and its like, whose values are few: llama.cpp calls every Llama of 80 layers with
/// fewer heads of keys than of queries so, and every Qwen2 of 80 layers.
bool has_few_values(const ModelConfig& model) {
  if (model.layers != 80) return false;
  const std::string architecture = gguf_architecture(model.family);
  return (architecture == "llama" && model.kv_heads < model.heads) || architecture == "qwen2";
}

Type wanted_type(const Mixture& mixture, const ModelConfig& model, std::string_view name) {
  if (name == "output.weight" || (model.tied_embeddings && name == "token_embd.weight"))
    return mixture.output;
  const auto place = in_layer(name);
  if (!place) return mixture.most;
  const auto& [layer, module] = *place;
  const bool values = module.starts_with(".attn_v.") || module.starts_with(".attn_qkv.");
  const bool downs = module.starts_with(".ffn_down");
  if (!values && !downs) return mixture.most;
  const Wider& wider = values ? mixture.values : mixture.downs;
  const Type type = among(wider.layers, layer, model.layers) ? wider.type : mixture.most;
  return values && type == Type::q4_k && has_few_values(model) ? Type::q5_k : type;
}

Type of_smaller_blocks(Type type) {
  switch (type) {
    case Type::q4_k:
      return Type::q5_0;
    case Type::q5_k:
      return Type::q5_1;
    case Type::q6_k:
      return Type::q8_0;
    default:
      return Type::f16;
  }
}

}  // namespace

GgufChoice choose_gguf_type(ExportFormat format, const ModelConfig& model, std::string_view name,
                            int64_t row) {
  const Type wanted = wanted_type(mixture_of(format), model, name);
  Type type = wanted;
  while (row % gguf_type(type).block != 0) type = of_smaller_blocks(type);
  return {wanted, type};
}

int64_t gguf_file_type(ExportFormat format) {
  return mixture_of(format).file_type;
}

}  // namespace viaduct
