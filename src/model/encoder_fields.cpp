#include "model/encoder_fields.h"

namespace viaduct {
namespace {

constexpr double kMostLayers = 1 << 14, kMostPositions = 1 << 26, kMostBuckets = 1 << 16,
                 kMostDistance = 1 << 20;

}  // namespace

void EncoderFields::resolve(const Auto<int64_t>& seq_length) {
  encoder_num_layers.resolve(0);
  if (encoder_num_layers.value() == 0) {
    encoder_seq_length.resolve(0);
  } else if (!seq_length.is_auto()) {
    encoder_seq_length.resolve(seq_length.value());
  }
  relative_attention_num_buckets.resolve(32);
  relative_attention_max_distance.resolve(128);
}

void add_encoder_fields(FieldGroup& group, EncoderFields& fields, const IdleRule& no_relative) {
  group
      .field("encoder_num_layers", fields.encoder_num_layers,
             "Transformer blocks of the encoder of an encoder-decoder model (T5), of the sizes of "
             "the num_layers of its decoder; 0: the model is a decoder.")
      .range(0, kMostLayers)
      .constraint("above 0 needs family t5, which needs it")
      .on_resume(resume::other_shapes);
  group
      .field("encoder_seq_length", fields.encoder_seq_length,
             "encoder_num_layers: tokens of a row of the encoder in training; auto: seq_length, "
             "which is the decoder's, and 0 without an encoder.")
      .range(0, kMostPositions)
      .in("tokens")
      .on_resume(resume::refused(resume::other_rows))
      .idle([&fields] { return fields.encoder_num_layers.value() == 0; },
            "model.encoder_num_layers = 0");
  group
      .field("relative_attention_num_buckets", fields.relative_attention_num_buckets,
             "position_embedding_type=relative: buckets of distances, each with a learned number "
             "for each head; an encoder has half of them for either direction.")
      .range(4, kMostBuckets)
      .constraint("even")
      .on_resume(resume::other_shapes)
      .idle(no_relative);
  group
      .field("relative_attention_max_distance", fields.relative_attention_max_distance,
             "position_embedding_type=relative: distances from here on share a bucket.")
      .range(1, kMostDistance)
      .in("tokens")
      .constraint("more than half of relative_attention_num_buckets")
      .idle(no_relative);
}

void take_encoder(EncoderFields& fields, const ModelConfig& model) {
  fields.encoder_num_layers.resolve(model.encoder.layers);
  if (model.positions != PositionKind::relative) return;
  fields.relative_attention_num_buckets.resolve(model.relative.buckets);
  fields.relative_attention_max_distance.resolve(model.relative.max_distance);
}

void set_encoder(const EncoderFields& fields, ModelConfig& model) {
  model.encoder.layers = fields.encoder_num_layers.value();
  model.encoder.row_length = model.encoder.any() ? fields.encoder_seq_length.value_or(0) : 0;
  model.relative = {fields.relative_attention_num_buckets.value(),
                    fields.relative_attention_max_distance.value()};
}

}  // namespace viaduct
