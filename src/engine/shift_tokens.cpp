#include "engine/shift_tokens.h"

namespace viaduct {

void add_shifted_tokens(HostBatch& batch, int64_t depths) {
  const size_t tokens = batch.ids.size();
  batch.shifted.clear();
  if (batch.sizes_only) return batch.shifted.resize(static_cast<size_t>(depths));
  for (int64_t k = 1; k <= depths; ++k) {
    HostShiftedTokens further{std::vector<int32_t>(tokens, 0), std::vector<int32_t>(tokens, -1),
                              std::vector<float>(tokens, 0.0f)};
    for (size_t d = 1; d < batch.document_offsets.size(); ++d) {
      for (int64_t t = batch.document_offsets[d - 1]; t + k < batch.document_offsets[d]; ++t) {
        const auto to = static_cast<size_t>(t), from = static_cast<size_t>(t + k);
        further.ids[to] = batch.ids[from];
        further.targets[to] = batch.targets[from];
        further.loss_weight[to] = batch.loss_weight[from];
      }
    }
    batch.shifted.push_back(std::move(further));
  }
}

}  // namespace viaduct
