#pragma once
// Which types the tensors of a quantized GGUF file have. A format such as Q4_K_M is a mixture: most
// matrices have one type, those where rounding costs most a wider one.

#include <string_view>

#include "checkpoint/export_tensors.h"
#include "model/model_config.h"
#include "tensor/gguf_types.h"

namespace viaduct {

struct GgufChoice {
  GgufTensorType wanted = GgufTensorType::f32;
  /// `wanted`, or a type of smaller blocks if rows are not multiples of its blocks.
  GgufTensorType type = GgufTensorType::f32;
};

/// Of the matrix `name`, as GGUF names it, whose rows have this many elements; the format is one of
/// GGUF alone (only_in_gguf).
GgufChoice choose_gguf_type(ExportFormat format, const ModelConfig& model, std::string_view name,
                            int64_t row);

/// llama.cpp's number of such a format (general.file_type).
int64_t gguf_file_type(ExportFormat format);

}  // namespace viaduct
