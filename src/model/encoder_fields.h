#pragma once
// The fields of section `model` about the encoder of an encoder-decoder model and about relative
// positions, with Megatron's names, and their conversion to what layers are built from.

#include "config/auto.h"
#include "config/field.h"
#include "model/model_config.h"

namespace viaduct {

struct EncoderFields {
  Auto<int64_t> encoder_num_layers, encoder_seq_length;
  Auto<int64_t> relative_attention_num_buckets, relative_attention_max_distance;

  /// Replaces every remaining `auto` by Megatron's default, of rows by those of the decoder.
  void resolve(const Auto<int64_t>& seq_length);
};

/// `no_relative`: when positions are not of the kind with a bias of scores.
void add_encoder_fields(FieldGroup& group, EncoderFields& fields, const IdleRule& no_relative);

/// Sets every field that is still `auto` to the value of an existing model.
void take_encoder(EncoderFields& fields, const ModelConfig& model);

/// Of resolved fields, into the model.
void set_encoder(const EncoderFields& fields, ModelConfig& model);

}  // namespace viaduct
