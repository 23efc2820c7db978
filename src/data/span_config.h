#pragma once
// Span corruption as fields of section `dataset`: how texts without answers become rows for a model
// with an encoder.

#include "config/field.h"

namespace viaduct {

struct SpanConfig {
  double masking_probability = 0.15;  // share of a text's tokens that are to be said
  double mean_noise_span_length = 3;  // tokens that stand together
  double short_sequence_probability = 0;
};

FieldGroup span_fields(SpanConfig& config);

}  // namespace viaduct
