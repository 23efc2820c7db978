#pragma once
// The architecture of a model as keys of a GGUF file (ggml/docs/gguf.md, "LLM"), and back.

#include <string>

#include "checkpoint/gguf_metadata.h"
#include "model/model_config.h"

namespace viaduct {

/// Adds general.architecture and the architecture's keys. ConfigError for families and properties
/// that llama.cpp has no place for.
void add_gguf_config(GgufHeadWriter& head, const ModelConfig& model);

/// The text of a Hugging Face config.json that describes the model of a file. `rope_factors`: that
/// tensor, where the file has it. IoError for missing keys and impossible values, ConfigError for
/// architectures and scalings that are not supported.
std::string config_of_gguf(const GgufHead& head, const Tensor& rope_factors);

/// Compares `model` with the one that config_of_gguf reads from the head written for it.
/// ConfigError if llama.cpp would compute another model; a note where it does so only for texts
/// longer than a sliding window, or with its own scale of scores.
std::vector<std::string> check_gguf_config(const ModelConfig& model, const GgufHead& head,
                                           const Tensor& rope_factors);

}  // namespace viaduct
