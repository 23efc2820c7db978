#include "engine/cut_batch.h"

#include <algorithm>

#include "base/error.h"
#include "engine/deal_images.h"
#include "engine/encoder_batch.h"
#include "engine/image_rows.h"
#include "nn/context_parallel/zigzag.h"

namespace viaduct {
namespace {

/// The documents with their padding.
struct PaddedDocument {
  int64_t begin = 0, end = 0;  // tokens of the whole micro-batch
  int64_t length = 0;          // with padding
};

std::vector<PaddedDocument> pad_documents(const std::vector<int32_t>& offsets,
                                          const BatchPlace& place, bool pad) {
  const int64_t multiple = zigzag_multiple(place.cp);
  const int64_t unit = place.stream_parts * place.tokens_together;
  std::vector<PaddedDocument> documents;
  int64_t total = 0;
  for (size_t d = 1; d < offsets.size(); ++d) {
    const int64_t length = offsets[d] - offsets[d - 1];
    const int64_t padded = (length + multiple - 1) / multiple * multiple;
    VIADUCT_CHECK(
        ShapeError, pad || padded == length,
        "context parallel: a row of {} tokens cannot be cut over {} ranks: the length has "
        "to be a multiple of 2 · {} = {}, for example {}",
        length, place.cp, place.cp, multiple, padded);
    documents.push_back({offsets[d - 1], offsets[d], padded});
    total += padded;
  }
  if (documents.empty()) return documents;
  VIADUCT_CHECK(ShapeError, pad || total / place.cp % unit == 0,
                "sequence parallel: the {} tokens of a context rank do not divide over {} tensor "
                "ranks, {} tokens together",
                total / place.cp, place.stream_parts, place.tokens_together);
  while (total / place.cp % unit != 0) {
    documents.back().length += multiple;
    total += multiple;
  }
  return documents;
}

}  // namespace

std::vector<int64_t> cut_sources(const std::vector<int32_t>& document_offsets,
                                 const BatchPlace& place, bool pad) {
  std::vector<int64_t> sources;
  for (const PaddedDocument& d : pad_documents(document_offsets, place, pad)) {
    const int64_t halves = place.cp == 1 ? 1 : 2;
    const int64_t chunk = d.length / (halves * place.cp);
    for (int half = 0; half < halves; ++half) {
      const int64_t first = d.begin + zigzag_chunk(place.cp, place.cp_rank, half) * chunk;
      for (int64_t t = first; t < first + chunk; ++t) sources.push_back(t < d.end ? t : -1);
    }
  }
  return sources;
}

HostBatch cut_batch(HostBatch whole, const BatchPlace& place, bool pad) {
  const auto documents = pad_documents(whole.document_offsets, place, pad);
  int64_t total = 0;
  for (const PaddedDocument& d : documents) total += d.length;
  if (place.cp == 1 && total == whole.tokens()) return whole;
  // Padding must not read as a token of an image.
  const auto padding_id = [&](int32_t last) {
    return place.images.any() && last == place.images.token ? (last == 0 ? 1 : 0) : last;
  };

  HostBatch cut;
  std::vector<int32_t> features;  // of the whole micro-batch's tokens
  if (place.images.any() && place.cp > 1) {
    deal_images(whole, place, cut);
    features = feature_rows(whole, place.images);
  } else {
    cut.images = whole.images;
  }
  if (whole.encoder != nullptr) deal_encoder_rows(whole, place, cut);
  cut.shifted.resize(whole.shifted.size());
  if (whole.sizes_only) {
    cut.sizes_only = true;
    for (const PaddedDocument& d : documents) cut.add_document_of(d.length / place.cp);
    return cut;
  }
  const std::vector<int64_t> sources = cut_sources(whole.document_offsets, place, pad);
  size_t next = 0;
  for (const PaddedDocument& d : documents) {
    for (int64_t i = 0; i < d.length / place.cp; ++i) {
      const int64_t source = sources[next++];
      // Padding repeats its document's last token; an empty one follows the token before it.
      const auto at = static_cast<size_t>(source >= 0 ? source : std::max<int64_t>(d.end - 1, 0));
      cut.ids.push_back(source >= 0 ? whole.ids[at] : padding_id(whole.ids[at]));
      if (!features.empty()) cut.dealt->features.push_back(source >= 0 ? features[at] : -1);
      cut.positions.push_back(whole.positions[at]);
      cut.targets.push_back(source >= 0 ? whole.targets[at] : -1);
      cut.loss_weight.push_back(source >= 0 ? whole.loss_weight[at] : 0.0f);
      cut.token_index.push_back(source >= 0 ? whole.token_index[at] : -1);
      for (size_t k = 0; k < whole.shifted.size(); ++k) {
        const HostShiftedTokens& from = whole.shifted[k];
        cut.shifted[k].ids.push_back(from.ids[at]);
        cut.shifted[k].targets.push_back(source >= 0 ? from.targets[at] : -1);
        cut.shifted[k].loss_weight.push_back(source >= 0 ? from.loss_weight[at] : 0.0f);
      }
    }
    cut.end_document();
    if (place.cp == 1) continue;
    for (int64_t t = d.begin; t < d.begin + d.length; ++t) {
      const auto at = static_cast<size_t>(t);
      cut.whole_token_index.push_back(t < d.end ? whole.token_index[at] : -1);
      if (!features.empty()) cut.dealt->of_image.push_back(t < d.end && features[at] >= 0 ? 1 : 0);
    }
  }
  return cut;
}

BatchPlace batch_place(const ParallelGroups& groups, bool sequence_parallel,
                       int64_t tokens_together) {
  BatchPlace place;
  place.tokens_together = tokens_together;
  place.cp = groups.cp().size(), place.cp_rank = groups.cp().rank();
  place.cp_inner = groups.cp_inner().size();
  if (sequence_parallel)
    place.stream_parts = groups.tp().size(), place.stream_part = groups.tp().rank();
  return place;
}

}  // namespace viaduct
