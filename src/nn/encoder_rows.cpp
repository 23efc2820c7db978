#include "nn/encoder_rows.h"

#include "base/error.h"

namespace viaduct {

const EncoderRows& encoder_rows(const Batch& batch) {
  VIADUCT_CHECK(ShapeError, batch.encoder != nullptr,
                "batch: {} tokens without rows for the encoder of the model", batch.tokens());
  return *batch.encoder;
}

EncoderTokens::EncoderTokens(RankContext& context, const Batch& batch)
    : context_(context), tokens_(context.token_index) {
  context.token_index = encoder_rows(batch).rows.token_index;
}

EdgeTensor encoded_edge(const RankContext& context, const Batch& rows, int64_t hidden,
                        bool needs_gradient) {
  return {.name = std::string(kEncoded),
          .dtype = context.settings.precision.activation,
          .shape = {context.groups.cp().size() * rows.stream_tokens, hidden},
          .needs_gradient = needs_gradient,
          .message_format = true,
          .stays = true};
}

}  // namespace viaduct
