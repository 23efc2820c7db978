#pragma once
// Conversion between section `model` and ModelConfig.

#include "model/model_config.h"
#include "model/model_fields.h"

namespace viaduct {

/// Sets every field that is still `auto` to the value of an existing model; the user's values stay.
/// ConfigError if fields cannot express the model (windows of several sizes).
void take_architecture(ModelFields& fields, const ModelConfig& model);

/// take_architecture from `fields.hf_config`, a Hugging Face folder or its config.json, if given.
/// IoError if it cannot be read.
void take_hf_config(ModelFields& fields);

/// The model of resolved fields (`ModelFields::resolve`, nothing missing). `base` provides what
/// fields do not cover (begin and end tokens). ConfigError with all problems of the sizes.
ModelConfig to_model_config(const ModelFields& fields, const ModelConfig& base = {});

/// ConfigError if `model` pairs rotary dims differently from `weights`, the model of the weights'
/// folder: the order of rows is fixed by training.
void check_rotary_order(const ModelConfig& weights, const ModelConfig& model);

/// ConfigError if `model` ties its head to the token table, and `weights` has a head of its own,
/// which would be dropped.
void check_head(const ModelConfig& weights, const ModelConfig& model);

}  // namespace viaduct
