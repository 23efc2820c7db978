#include "data/pair_row.h"

#include <algorithm>
#include <numeric>

namespace viaduct {
namespace {

/// `tokens` and padding up to `length` places.
std::vector<int32_t> padded(std::vector<int32_t> tokens, int64_t length, int32_t padding) {
  tokens.resize(static_cast<size_t>(length), padding);
  return tokens;
}

}  // namespace

void fill_pair(const PairSettings& settings, int64_t length, const std::vector<int32_t>& input,
               const std::vector<int32_t>& answer, Sample& sample) {
  const auto places = static_cast<size_t>(length);
  const auto said = static_cast<std::ptrdiff_t>(answer.size());
  sample.encoder_tokens = padded(input, settings.encoder_length, settings.padding_token);
  sample.encoder_used = static_cast<int64_t>(input.size());
  sample.labels = padded(answer, length, settings.padding_token);
  sample.tokens.assign(1, settings.start_token);
  sample.tokens.insert(sample.tokens.end(), sample.labels.begin(), sample.labels.end() - 1);
  sample.loss_mask.assign(places, 0.0f);
  std::fill_n(sample.loss_mask.begin(), said, 1.0f);
  sample.position_ids.resize(places);
  std::iota(sample.position_ids.begin(), sample.position_ids.end(), 0);
  sample.cu_seqlens = {0, static_cast<int32_t>(length)};
  sample.padding.assign(places, 0);
  std::fill(sample.padding.begin() + said, sample.padding.end(), uint8_t{1});
}

}  // namespace viaduct
