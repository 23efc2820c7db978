#pragma once
// An adapter as llama.cpp reads it beside a GGUF model (llama-cli --lora FILE): general.type
// "adapter", adapter.type "lora", adapter.lora.alpha, and two tensors for each weight W [out, in]
// of the model's file: W.lora_a [r, in] and W.lora_b [out, r].

#include <filesystem>
#include <string_view>

#include "checkpoint/gguf_file.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {

/// Writes a new file, whole or not at all, in FP32. llama.cpp scales each pair by alpha / r with
/// one alpha for all; where the adapter's layers have others (patterns, rank stabilization), B has
/// the factor. Rows of B are in the order of the model's file (gguf_weights.h). ConfigError for
/// models that llama.cpp cannot represent.
WrittenAdapter write_gguf_adapter(const std::filesystem::path& path, std::string_view name,
                                  const ModelConfig& model, const PeftAdapter& adapter);

/// ConfigError for a file of an adapter, which llama.cpp alone reads: what to give instead.
void refuse_gguf_adapter(const GgufFile& file);

}  // namespace viaduct
