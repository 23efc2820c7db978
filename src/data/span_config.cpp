#include "data/span_config.h"

namespace viaduct {

FieldGroup span_fields(SpanConfig& config) {
  FieldGroup group("dataset", "");
  group.of_values();
  group
      .field(
          "masking_probability", config.masking_probability,
          "Of data sets without a mask, for a model with an encoder: the share of a row's tokens "
          "that are left out of the encoder's row, in spans with a sentinel in the place of "
          "each, and that the decoder is to say (T5's span corruption). Sentinels are the "
          "tokenizer's <extra_id_0>, <extra_id_1>, …, or those of tokenizer.vocab_extra_ids, "
          "the last id first.")
      .alias("masked_lm_prob")
      .alias("mask_prob")
      .range(0.001, 0.9)
      .on_resume(resume::said(resume::other_rows));
  group
      .field("mean_noise_span_length", config.mean_noise_span_length,
             "masking_probability: mean length of a span.")
      .alias("mean_ngram_size")
      .range(1, 1000)
      .in("tokens")
      .on_resume(resume::said(resume::other_rows));
  group
      .field("short_sequence_probability", config.short_sequence_probability,
             "masking_probability: share of rows whose text is cut to a random length, from 2 "
             "tokens on; what is cut off is left out.")
      .alias("short_seq_prob")
      .range(0, 1)
      .on_resume(resume::said(resume::other_rows));
  return group;
}

}  // namespace viaduct
