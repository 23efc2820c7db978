#include "data/sample.h"

namespace viaduct {

void fill_masks_and_positions(const RowSettings& settings, Sample& sample) {
  const size_t length = sample.tokens.size();
  sample.loss_mask.assign(length, 1.0f);
  sample.position_ids.resize(length);
  sample.cu_seqlens.assign(1, 0);
  sample.padding.clear();
  int32_t position = 0;
  for (size_t t = 0; t < length; ++t) {
    sample.position_ids[t] = position++;
    if (sample.tokens[t] != settings.eod_id) continue;
    // The end-of-document token belongs to the document that it closes.
    if (settings.eod_mask_loss) sample.loss_mask[t] = 0.0f;
    if (settings.reset_position_ids) position = 0;
    if (settings.reset_attention_mask && t + 1 < length)
      sample.cu_seqlens.push_back(static_cast<int32_t>(t + 1));
  }
  sample.cu_seqlens.push_back(static_cast<int32_t>(length));
}

}  // namespace viaduct
