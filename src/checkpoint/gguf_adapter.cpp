#include "checkpoint/gguf_adapter.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_weights.h"
#include "checkpoint/round_tensor.h"
#include "nn/adapter_settings.h"

namespace viaduct {
namespace {

/// llama.cpp's alpha of a layer: its scale is alpha / rank.
double plain_alpha(const AdapterShape& shape) {
  return shape.scale() * static_cast<double>(shape.rank);
}

/// The alpha of most layers, which then keep their B bit by bit.
double file_alpha(const AdapterSettings& settings) {
  std::map<double, int64_t> counts;
  for (const auto& [module, shape] : settings.modules) ++counts[plain_alpha(shape)];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

Tensor scaled(const Tensor& tensor, double factor) {
  const Tensor values = host_tensor(DType::f32, tensor.shape());
  for_each_value(tensor, [&](int64_t i, double value) {
    values.data<float>()[i] = static_cast<float>(value * factor);
  });
  return values;
}

/// What of an adapter such a file cannot hold.
void check_form(const PeftAdapter& adapter) {
  const char* instead = "without --adapter-only the model's file has it merged";
  VIADUCT_CHECK(ConfigError, !adapter.settings.magnitudes,
                "{}: has the magnitudes of DoRA, which llama.cpp's file of an adapter cannot "
                "hold; {}",
                adapter.folder.string(), instead);
  const auto& trained = adapter.settings.trained;
  VIADUCT_CHECK(ConfigError, trained.empty(),
                "{}: modules of the model trained as well ({}), which llama.cpp's file of an "
                "adapter cannot hold; {}",
                adapter.folder.string(), trained.empty() ? "" : *trained.begin(), instead);
}

/// The model's weights by Hugging Face's names.
std::map<std::string, GgufWeight> weights_by_name(const ModelConfig& model) {
  std::map<std::string, GgufWeight> weights;
  for (const auto& [gguf, weight] : gguf_weights(model)) weights[weight.name] = weight;
  return weights;
}

}  // namespace

void refuse_gguf_adapter(const GgufFile& file) {
  VIADUCT_CHECK(ConfigError, file.head().keys.text("general.type", "") != "adapter",
                "{}: llama.cpp's file of an adapter, which is written and not read; expected the "
                "folder of PEFT or of the run that it was made from, as --adapter DIR",
                file.where());
}

WrittenAdapter write_gguf_adapter(const std::filesystem::path& path, std::string_view name,
                                  const ModelConfig& model, const PeftAdapter& adapter) {
  check_form(adapter);
  const auto weights = weights_by_name(model);
  const double alpha = file_alpha(adapter.settings);
  GgufHeadWriter head;
  head.add_text("general.architecture", gguf_architecture(model.family));
  head.add_text("general.type", "adapter");
  head.add_text("general.name", name);
  head.add_u32("general.file_type", 0);  // FP32
  head.add_text("adapter.type", "lora");
  head.add_f32("adapter.lora.alpha", alpha);
  std::vector<Tensor> tensors;
  const auto add = [&](const std::string& gguf, const Tensor& tensor) {
    head.add_tensor({gguf, GgufTensorType::f32, tensor.shape()});
    tensors.push_back(tensor);
  };
  for (const auto& [module, shape] : adapter.settings.modules) {
    const auto found = weights.find(module + ".weight");
    VIADUCT_CHECK(ConfigError, found != weights.end(),
                  "{}: GGUF files have no name for the weight of {}", path.string(), module);
    const auto stored = [&](const char* suffix) {
      return adapter.tensors->tensor(kAdapterPrefix + module + suffix);
    };
    GgufWeight rows = found->second;
    // A and B are of W [out, in], as a GGUF file has it: only the order of rows differs.
    if (rows.change == GgufWeight::Change::transposed) rows.change = GgufWeight::Change::none;
    add(rows.gguf + ".lora_a", scaled(stored(kAdapterA), 1));
    add(rows.gguf + ".lora_b",
        to_gguf(scaled(stored(kAdapterB), plain_alpha(shape) / alpha), rows));
  }
  adapter.tensors->check_read();

  remove_unfinished(path);
  OutputFile file(path);
  file.write(head.head());
  const std::string padding(static_cast<size_t>(kGgufAlignment), '\0');
  WrittenAdapter written;
  for (const Tensor& tensor : tensors) {
    file.write(tensor.raw(), static_cast<size_t>(tensor.bytes()));
    const int64_t rest = aligned_for_gguf(tensor.bytes()) - tensor.bytes();
    file.write(std::string_view(padding).substr(0, static_cast<size_t>(rest)));
    ++written.tensors;
    written.bytes += tensor.bytes();
  }
  file.commit();
  return written;
}

}  // namespace viaduct
