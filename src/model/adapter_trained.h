#pragma once
// What of a model may train beside its adapters (peft.train, PEFT's modules_to_save): norms, token
// and position table, head, and layers of an image projector. Each is a copy of its own in the
// adapter's files.

#include <set>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "nn/adapter_settings.h"

namespace viaduct {

/// The modules, by Hugging Face's names ("model.norm"), in the model's order: those whose
/// parameters are theirs alone, except the linear layers of blocks.
std::vector<std::string> trainable_modules(const ModelConfig& model);

/// Whether a tied head trains with the token table that is `module`.
bool is_tied_table(const ModelConfig& model, const std::string& module);

/// The further modules of transformers that have the token table: those that the stacks of an
/// encoder-decoder read, and a tied head.
std::vector<std::string> table_copies(const ModelConfig& model);

/// The modules that `patterns` of peft.train ask for: names or last parts, with wildcards.
/// ConfigError for one that matches nothing, with the nearest name, and for a tied head, which is
/// the token table.
std::set<std::string> choose_trained(const std::vector<std::string>& patterns,
                                     const ModelConfig& model);

/// For the user: which linear layers of the blocks `patterns` match as well, which do not train
/// whole beside adapters; those in `adapters` not among them. Empty: none.
std::string frozen_matches(const std::vector<std::string>& patterns, const ModelConfig& model,
                           const AdapterSettings& adapters);

}  // namespace viaduct
