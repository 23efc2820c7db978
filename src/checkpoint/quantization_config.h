#pragma once
// "quantization_config" of a Hugging Face config.json: how the folder's matrices are stored.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// The stored forms that are read (checkpoint/quantized_weights.h).
struct QuantizationConfig {
  std::string method;  // as the file names it, for messages
  /// FP8 codes with scales: of a whole matrix, of each row, or of blocks of this size (rows,
  /// columns), as the scales' shapes say. Absent: no blocks.
  struct Block {
    int64_t rows = 0, columns = 0;
  };
  std::optional<Block> block;
  bool exponents = false;     // scales of blocks are E8M0 (MXFP8)
  bool packed_mxfp4 = false;  // GPT-OSS: X_blocks and X_scales
};

/// Reads it; nothing where the field is absent or null. ConfigError that starts with `where` for
/// methods and forms that are not supported, with those that are; IoError for a damaged text.
std::optional<QuantizationConfig> read_quantization_config(std::string_view config_json,
                                                           const std::string& where);

/// The text of a config.json without the field; unchanged where it is absent.
std::string without_quantization_config(const std::string& config_json);

}  // namespace viaduct
