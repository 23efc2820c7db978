#pragma once
// The tensors of a model in GGUF files: their names, and where llama.cpp stores them differently
// from Hugging Face (its convert_hf_to_gguf.py).

#include <string>
#include <unordered_map>

#include "model/model_config.h"
#include "tensor/tensor.h"

namespace viaduct {

/// The architecture's name in GGUF files; ConfigError for families whose tensors llama.cpp does not
/// know.
std::string gguf_architecture(const std::string& family);

struct GgufWeight {
  enum class Change {
    none,
    /// Rows of a head, in the order of halves (rotary pairs i and i + D / 2): stored as neighbours.
    pairs,
    transposed,  // GPT-2's matrices: stored [out, in]
    offset,      // `offset` is added, and the sum stored in FP32 (Gemma's norms: w + 1)
  };

  std::string name;  // Hugging Face's
  std::string gguf;
  Change change = Change::none;
  int64_t heads = 0;  // whose rows `pairs` orders
  double offset = 0;
};

/// All tensors that a model of these sizes may have, by GGUF's names: weight and bias of each
/// module of TensorNames.
std::unordered_map<std::string, GgufWeight> gguf_weights(const ModelConfig& model);

/// Converts a host tensor of a Hugging Face folder to its form in a GGUF file, and back; IoError
/// that names the tensor if its shape does not divide. Only `offset` changes the dtype, to f32.
Tensor to_gguf(const Tensor& tensor, const GgufWeight& weight);
Tensor from_gguf(const Tensor& tensor, const GgufWeight& weight);
/// The row of the file that has row `row` of a Hugging Face tensor with `rows` rows, where the
/// change is `pairs`; IoError as above.
int64_t row_in_gguf(int64_t row, int64_t rows, const GgufWeight& weight);
/// The shape of the result of both.
Shape changed_shape(const Shape& shape, const GgufWeight& weight);

}  // namespace viaduct
