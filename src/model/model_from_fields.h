#pragma once
// Between section `model` as the user writes it and what layers compute from.

#include "model/model_config.h"
#include "model/model_fields.h"

namespace viaduct {

/// Gives every field that is still `auto` the value of an existing model; what the user said stays.
/// ConfigError if the model cannot be said in fields (windows of several sizes).
void take_architecture(ModelFields& fields, const ModelConfig& model);

/// take_architecture from `fields.hf_config`, a Hugging Face folder or its config.json, if given.
/// IoError if it cannot be read.
void take_hf_config(ModelFields& fields);

/// The model of resolved fields (`ModelFields::resolve`, nothing missing). `base` gives what fields
/// do not say (begin and end tokens). ConfigError with all problems of the sizes.
ModelConfig to_model_config(const ModelFields& fields, const ModelConfig& base = {});

/// ConfigError if `model` pairs rotary dims otherwise than `weights`, from whose folder its weights
/// come: their rows are in the order in which they were trained.
void check_rotary_order(const ModelConfig& weights, const ModelConfig& model);

}  // namespace viaduct
