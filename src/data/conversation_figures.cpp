#include "data/conversation_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/image_files.h"
#include "data/indexed_dataset.h"
#include "data/packing_plan.h"
#include "data/score_mask.h"
#include "data/split.h"

namespace viaduct {
namespace {

constexpr int64_t kMostConversations = int64_t{1} << 14;

/// The data sets of training; of validation in a run that only evaluates.
DatasetConfig read_part(const DatasetConfig& config) {
  DatasetConfig part = config;
  if (config.blend_per_split) {
    part.blend_per_split.reset();
    part.blend = config.blend_per_split->at(0);
    if (!part.blend) part.blend = config.blend_per_split->at(1);
  }
  return part;
}

/// Of the conversations that are looked at.
struct Sampled {
  std::vector<int32_t> lengths;
  int64_t images = 0;
};

Sampled sample_of(const DatasetConfig& config) {
  Sampled sampled;
  const DatasetConfig part = read_part(config);
  if (!part.blend) return sampled;
  const std::vector<std::string> prefixes = masked_datasets(part).with;
  for (const std::string& prefix : prefixes) {
    const IndexedDataset dataset(prefix, IndexCheck::on_use);
    const auto fractions = config.blend_per_split ? std::optional(std::array<double, 2>{0.0, 1.0})
                                                  : parse_split(config.split)[0];
    if (!fractions) continue;
    const DocumentRange range = split_range(*fractions, dataset.sequence_count());
    const auto most = kMostConversations / static_cast<int64_t>(prefixes.size());
    std::optional<IndexedDataset> images;
    if (has_images(prefix)) images.emplace(images_prefix(prefix), IndexCheck::on_use);
    for (int64_t i = range.first; i < std::min(range.end, range.first + most); ++i) {
      if (dataset.sequence_length(i) == 0) continue;
      sampled.lengths.push_back(dataset.sequence_length(i));
      if (images && i < images->sequence_count()) sampled.images += images->sequence_length(i);
    }
    dataset.check_read();
  }
  return sampled;
}

/// The documents of a row, padding at its end included.
std::vector<int32_t> documents_of(const EpochRows& rows, size_t row,
                                  std::span<const int32_t> lengths,
                                  const PackingSettings& packing) {
  std::vector<int32_t> documents;
  int64_t room = packing.row_tokens;
  for (auto i = row == 0 ? size_t{0} : static_cast<size_t>(rows.row_ends[row - 1]);
       i < static_cast<size_t>(rows.row_ends[row]); ++i) {
    const int64_t offset = rows.offsets.empty() ? 0 : rows.offsets[i];
    const int64_t left = lengths[static_cast<size_t>(rows.conversations[i])] - offset;
    documents.push_back(static_cast<int32_t>(packing.places(std::min(left, room))));
    room -= documents.back();
  }
  if (room > 0) documents.push_back(static_cast<int32_t>(room));
  return documents;
}

}  // namespace

ConversationFigures conversation_figures(std::vector<int32_t> lengths, int64_t row_tokens,
                                         const PackingConfig& config, uint32_t seed) {
  ConversationFigures figures;
  PackingSettings packing = packing_settings(config, row_tokens);
  if (row_tokens % packing.multiple != 0) packing.multiple = 1;
  double tokens = 0;
  for (int32_t& length : lengths) {
    figures.longest = std::max<int64_t>(figures.longest, length);
    if (!packing.split) length = std::min(length, static_cast<int32_t>(row_tokens));
    tokens += length;
  }
  figures.conversations = static_cast<int64_t>(lengths.size());
  figures.mean_tokens = tokens / static_cast<double>(lengths.size());
  const auto padding = [&](const EpochRows& rows) {
    return 1 -
           tokens / (static_cast<double>(rows.row_ends.size()) * static_cast<double>(row_tokens));
  };
  const EpochRows rows = plan_epoch(lengths, packing, seed, 0);
  figures.padding = padding(rows);
  PackingSettings packed = packing;
  packed.algorithm = PackingAlgorithm::first_fit_decreasing;
  figures.padding_packed = padding(plan_epoch(lengths, packed, seed, 0));
  for (size_t row = 0; row < rows.row_ends.size(); ++row) {
    const std::vector<int32_t> documents = documents_of(rows, row, lengths, packing);
    figures.most_documents =
        std::max(figures.most_documents, static_cast<int64_t>(documents.size()));
    double squares = 0;
    for (const double length : documents) squares += length * length;
    figures.row_squares.push_back(squares);
  }
  if (packing.algorithm != PackingAlgorithm::none)
    figures.most_documents += figures.most_documents / 4 + 1;
  const auto& squares = figures.row_squares;
  const double mean =
      std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(squares.size());
  const auto typical =
      std::ranges::min_element(squares, {}, [&](double of_row) { return std::abs(of_row - mean); });
  const auto row = static_cast<size_t>(typical - squares.begin());
  figures.row_documents = documents_of(rows, row, lengths, packing);
  const int64_t parts = rows.row_ends[row] - (row == 0 ? 0 : rows.row_ends[row - 1]);
  figures.ends_with_padding = static_cast<int64_t>(figures.row_documents.size()) > parts;
  return figures;
}

std::optional<ConversationFigures> conversation_figures(const DatasetConfig& config) {
  if (!config.packing.conversations || config.sequence_length.is_auto()) return std::nullopt;
  try {
    Sampled sampled = sample_of(config);
    if (sampled.lengths.empty()) return std::nullopt;
    ConversationFigures figures =
        conversation_figures(std::move(sampled.lengths), config.sequence_length.value(),
                             config.packing, static_cast<uint32_t>(config.random_seed));
    const auto rows = static_cast<int64_t>(figures.row_squares.size());
    figures.images = (sampled.images + rows - 1) / rows;
    return figures;
  } catch (const IoError&) {
    return std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;  // of the blend or the split; reported where they are checked
  }
}

}  // namespace viaduct
