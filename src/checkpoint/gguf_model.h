#pragma once
// Models as GGUF files, which llama.cpp runs: written from a source of weights, and read as one.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/export_tensors.h"
#include "checkpoint/tensor_source.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

struct GgufWritten {
  int64_t tensors = 0, bytes = 0;
  Rounding rounding;
  std::vector<std::string> notes;  // for people
};

/// Writes a file, whole or not at all, tensor by tensor; `name` is the model's (general.name).
/// Matrices have `format` (absent: their stored one; of quantized formats that of gguf_mixture.h);
/// vectors and position embeddings FP32, as llama.cpp wants them. ConfigError for fp8, for stored
/// formats that GGUF lacks, and for models that llama.cpp cannot represent; IoError as
/// rounded_tensor and quantized_tensor.
GgufWritten write_gguf(const std::filesystem::path& path, std::string_view name,
                       const ModelConfig& model, const TensorSource& weights,
                       const TokenizerFiles& side_files, std::optional<ExportFormat> format);

/// A GGUF file as the contents of a Hugging Face folder.
struct GgufModel {
  std::string name;                       // general.name; "" without one
  std::unique_ptr<TensorSource> weights;  // by Hugging Face's names; made when requested
  std::string config;                     // the text of config.json
  std::map<std::string, std::string> files;
  std::vector<std::string> notes;
};

/// Reads the file's head. Quantized tensors become FP32 (gguf_blocks.h). A vector that is stored in
/// FP32 beside matrices of BF16 or FP16 becomes one of these again if all its values fit exactly,
/// as Hugging Face's folders have one format. IoError for damaged files and tensors that the model
/// has no place for, ConfigError for models that are not supported.
GgufModel read_gguf(const std::filesystem::path& path);

class GgufFile;
GgufModel read_gguf(GgufFile file);

/// Parts of it: the text of config.json, ConfigError also for one file of several; the weights of
/// the model that this text describes.
std::string gguf_config_text(const GgufFile& file);
std::unique_ptr<TensorSource> gguf_model_weights(GgufFile file, const std::string& config);

}  // namespace viaduct
