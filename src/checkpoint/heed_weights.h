#pragma once
// Where the weights of a Hugging Face folder contradict its config.json: the weights are right, or
// what is not read of them is said.

#include <string>

#include "checkpoint/tensor_source.h"
#include "model/model_config.h"

namespace viaduct {

/// Changes `config`, as read from the config.json at `where`, to what `weights` has, and adds notes
/// about what differs:
/// - a head that is tied to the token embedding by the file, but differs from it, is a head of its
///   own;
/// - layers of multi-token prediction that are not there are left out, those beyond
///   num_nextn_predict_layers are not read;
/// - copies of the tables in such layers that differ from the tables, and stored frequencies of
///   rotary positions that differ from the configured ones, are not read.
/// ConfigError: copies of the one token table of T5's stacks that differ from it, or constants that
/// another model has.
void heed_weights(ModelConfig& config, const TensorSource& weights, const std::string& where);

/// The text of a config.json with the fields that heed_weights changed.
std::string with_heeded_fields(const std::string& text, const ModelConfig& config);

}  // namespace viaduct
