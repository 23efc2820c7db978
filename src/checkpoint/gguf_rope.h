#pragma once
// Rotary positions as keys and a tensor of a GGUF file, and back.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/gguf_metadata.h"
#include "nn/rotary_table.h"

namespace viaduct {

/// rope_freqs.weight of llama3's scaling, f32 [D / 2]: what llama.cpp divides each frequency by.
/// Absent for other scalings, which have keys.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
Tensor gguf_rope_factors(const RotarySpec& rotary);

/// Adds the keys of base, width and scaling; `prefix` is the architecture's ("llama.").
void add_gguf_rope(GgufHeadWriter& head, const std::string& prefix, const RotarySpec& rotary);

/// rope_scaling of a config.json, null without scaling. `factors`: kRopeFactors where the file has
/// it; `rotary`: base and width. ConfigError for scalings that are not supported, IoError for keys
/// that are missing.
nlohmann::ordered_json rope_scaling_of_gguf(const GgufKeys& keys, const std::string& prefix,
                                            const Tensor& factors, const RotarySpec& rotary);

}  // namespace viaduct
