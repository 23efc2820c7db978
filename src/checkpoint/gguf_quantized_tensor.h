#pragma once
// Tensors as the quantized blocks of a GGUF file.

#include <string>

#include "checkpoint/round_tensor.h"
#include "tensor/gguf_types.h"

namespace viaduct {

class ThreadPool;

/// The elements of a floating host tensor, contiguous, whose rows are multiples of the type's
/// blocks, as blocks of a quantized type other than MXFP4: u8 [bytes]. Scales are searched
/// (gguf_search.h), but those of Q8_0 (q8_0_blocks). `pool` may be null, and does not change the
/// bytes. `total` counts how the blocks' values differ from the elements. IoError that names the
/// tensor if an element is not finite or beyond FP16's range; ShapeError for other rows.
Tensor quantized_tensor(const Tensor& tensor, GgufTensorType type, const std::string& name,
                        ThreadPool* pool, Rounding& total);

/// As Q8_0: of each 32 elements the largest magnitude / 127 is the scale, and an element / scale,
/// rounded to nearest, half away from zero, the code; the scale is then stored as f16 (ggml's
/// reference quantizer). IoError if an element is not finite or a scale is beyond f16.
Tensor q8_0_blocks(const Tensor& tensor, const std::string& name, Rounding& total);

}  // namespace viaduct
