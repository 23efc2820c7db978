#pragma once
// The matrices of quantized Hugging Face folders as BF16: FP8 (E4M3 or E5M2) with a scale for each
// matrix, row or block, MXFP8, and the packed MXFP4 of GPT-OSS. A weight is code × scale, computed
// exactly and rounded once, to nearest even; MX scales are powers of two, so nothing is rounded
// there unless a product leaves BF16's range. Other tensors stay as they are stored; scales of
// activations and of key-value caches, which weights do not need, are left out.

#include <memory>
#include <unordered_map>

#include "checkpoint/derived_source.h"
#include "checkpoint/quantization_config.h"

namespace viaduct {

class QuantizedWeights : public DerivedSource {
 public:
  /// IoError for a matrix without scales, scales of another shape than the configuration says, and
  /// codes that it does not describe.
  QuantizedWeights(std::unique_ptr<TensorSource> stored, const QuantizationConfig& config);

  /// As TensorSource; IoError also for a scale that is not finite, and for a product beyond BF16.
  Tensor tensor(const std::string& name) const override;
  /// Decodes only the rows of the piece.
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  const TensorInfo* find(const std::string& name) const override;

 private:
  /// Codes of `values` in blocks of `rows` × `columns` elements that have a scale each.
  struct Coded {
    std::string values, scales;
    int64_t rows = 0, columns = 0;
    bool packed = false;  // MXFP4: two codes a byte, the lower half first; stored [E, N, K]
  };

  Coded coded(const TensorInfo& codes, const QuantizationConfig& config) const;
  Coded packed(const std::string& name, TensorInfo& info) const;
  /// The slices [begin, end) along dim 0, bf16.
  Tensor decode(const TensorInfo& info, const Coded& coded, int64_t begin, int64_t end) const;

  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, Coded> coded_;
};

}  // namespace viaduct
