#pragma once
// The weights of a model in the number format of an export, made one tensor at a time.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/round_tensor.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"

namespace viaduct {

/// `--dtype`. fp8: matrices of the blocks as E4M3 with block scales, the rest as BF16
/// (checkpoint/fp8_blocks.h). From q8_0 on: the quantized formats of GGUF files
/// (checkpoint/gguf_mixture.h).
enum class ExportFormat {
  fp32,
  bf16,
  fp16,
  fp8,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k_s,
  q4_k_m,
  q5_k_s,
  q5_k_m,
  q6_k
};

/// By the names of --dtype; ConfigError that lists them otherwise.
ExportFormat export_format(std::string_view name);
std::string_view export_format_name(ExportFormat format);
/// Whether Hugging Face folders do not have it: the quantized formats of GGUF files.
bool only_in_gguf(ExportFormat format);
/// "q8_0, q4_0, …": the names of these, for messages.
std::string gguf_format_names();
/// The dtype of tensors that are not quantized.
DType plain_dtype(ExportFormat format);

/// The tensors of a Hugging Face folder. Tensors that are not floating stay as they are.
class ExportTensors {
 public:
  /// `format` absent: each tensor in its stored format. ConfigError for fp8 where the family's
  /// matrices are stored transposed (GPT-2: Hugging Face's form of FP8 is one of linear layers) and
  /// for formats of GGUF files.
  ExportTensors(const TensorSource& source, const ModelConfig& model,
                std::optional<ExportFormat> format);

  /// What `tensor` returns, in the order of the source; scales follow their codes.
  const std::vector<TensorInfo>& tensors() const { return infos_; }
  /// IoError if the source's tensor cannot be read or has values that the format cannot hold.
  Tensor tensor(const std::string& name);

  /// Of all tensors that were requested so far.
  const Rounding& rounding() const { return rounding_; }
  /// Under fp8, the modules with a matrix that is not quantized, embeddings aside; in order.
  const std::vector<std::string>& unquantized_modules() const { return unquantized_; }

 private:
  struct Made {
    std::string from;
    enum class Part { whole, codes, scales, constant } part = Part::whole;
    double value = 0;  // constant
  };

  void add(TensorInfo info, Made made);
  /// The copies of the token table and of the head that DeepSeek's checkpoints have in each layer
  /// of multi-token prediction; none that the source has itself.
  void add_copies(const ModelConfig& model, const TensorNames& names);
  /// Numbers of the family's checkpoints that the source has not, in the type of the layer's raw
  /// slopes.
  void add_constants(const ModelConfig& model, const TensorNames& names);

  const TensorSource& source_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, size_t> place_;
  std::vector<Made> made_;
  std::vector<std::string> unquantized_;
  Rounding rounding_;
};

}  // namespace viaduct
