#include "data/conversation_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/conversation_check.h"
#include "data/image_token_check.h"

namespace viaduct {
namespace {

IndexCheck check_of(const IndexStorage& storage) {
  return storage.fast_cache_load ? IndexCheck::on_use : IndexCheck::at_once;
}

/// The request, unless conversations do not fit.
ConversationRequest checked(ConversationRequest request, const ConversationRowSettings& settings,
                            IndexCheck check) {
  if (check == IndexCheck::on_use) return request;
  check_conversation_lengths(*request.dataset, request.split, request.range, settings.packing,
                             settings.limits);
  return request;
}

}  // namespace

ConversationDataset::ConversationDataset(std::shared_ptr<const IndexedDataset> dataset,
                                         std::shared_ptr<const IndexedDataset> mask, Split split,
                                         DocumentRange range, std::optional<int64_t> num_samples,
                                         const ConversationRowSettings& settings,
                                         const IndexStorage& storage,
                                         std::optional<int64_t> vocabulary_size)
    : settings_(settings),
      vocabulary_size_(vocabulary_size),
      mask_(dataset, std::move(mask), check_of(storage)),
      stored_(checked({dataset, split, range, num_samples, settings.packing, settings.random_seed},
                      settings, check_of(storage)),
              storage) {
  if (check_of(storage) == IndexCheck::on_use) return;
  tokens_per_epoch_ = 0;
  for (int64_t i = range.first; i < range.end; ++i)
    *tokens_per_epoch_ += dataset->sequence_length(i);
}

std::vector<ConversationDataset::Part> ConversationDataset::parts_of(const ConversationIndex& index,
                                                                     int64_t row) const {
  const IndexedDataset& dataset = this->dataset();
  const auto damaged = [&](const char* what, int64_t found, int64_t end) {
    dataset.check_read();
    index.check_read();
    fail_damaged_order(dataset.prefix(), stored_.request().split, fmt::format("row {}", row), what,
                       found, end);
  };
  const PackingSettings& packing = settings_.packing;
  const auto [first, end] = index.row(row);
  if (first < 0 || first >= index.parts()) damaged("part", first, index.parts());
  if (end <= first || end > index.parts()) damaged("end", end, index.parts() + 1);
  std::vector<Part> parts;
  int64_t room = packing.row_tokens;
  for (int64_t i = first; i < end; ++i) {
    const ConversationPart part = index.part(i);
    if (part.sequence < 0 || part.sequence >= dataset.sequence_count())
      damaged("conversation", part.sequence, dataset.sequence_count());
    const int64_t left = dataset.sequence_length(part.sequence) - part.offset;
    if (part.offset < 0 || left < 1)
      damaged("offset", part.offset, dataset.sequence_length(part.sequence));
    const int64_t tokens = packing.split ? std::min(left, room) : left;
    if (tokens < 1 || packing.places(tokens) > room)
      damaged("length", tokens, packing.row_tokens + 1);
    parts.push_back({part.sequence, part.offset, tokens});
    room -= packing.places(tokens);
  }
  return parts;
}

void ConversationDataset::append(const Part& part, std::vector<int32_t>& scratch, size_t at,
                                 Sample& sample) const {
  const IndexedDataset& dataset = this->dataset();
  const auto tokens = static_cast<size_t>(part.tokens);
  // The token after a part is what its last one predicts.
  const int64_t left = dataset.sequence_length(part.sequence) - part.offset;
  const auto read = static_cast<size_t>(std::min(left, part.tokens + 1));
  scratch.resize(read);
  dataset.read(part.sequence, part.offset, std::span<int32_t>(scratch));
  if (vocabulary_size_) {
    const int32_t largest = *std::max_element(scratch.begin(), scratch.end());
    VIADUCT_CHECK(
        IoError, largest < *vocabulary_size_,
        "dataset {}: conversation {} holds token id {}, but the model's vocabulary has {} entries",
        dataset.prefix(), part.sequence, largest, *vocabulary_size_);
  }
  if (settings_.images == nullptr)
    check_no_image_token(dataset, part.sequence, part.offset, scratch, settings_.image_token);
  const auto to = static_cast<std::ptrdiff_t>(at);
  std::copy_n(scratch.begin(), tokens, sample.tokens.begin() + to);
  std::copy(scratch.begin() + 1, scratch.end(), sample.labels.begin() + to);
  for (size_t t = 0; t < tokens; ++t) sample.position_ids[at + t] = static_cast<int32_t>(t);
  if (settings_.answer_only_loss) {
    scratch.resize(read - 1);
    mask_.read(part.sequence, part.offset + 1, scratch);
    std::copy(scratch.begin(), scratch.end(), sample.loss_mask.begin() + to);
  } else {
    const auto learned = [&](int32_t id) {
      return settings_.images == nullptr || id != settings_.images->token() ? 1.0f : 0.0f;
    };
    std::transform(scratch.begin() + 1, scratch.end(), sample.loss_mask.begin() + to, learned);
  }
  std::fill_n(sample.padding.begin() + to, tokens, uint8_t{0});
  // Causality hides padding at the end of a document from its tokens. A picture's token would stand
  // for more than the picture.
  const int32_t last = settings_.images ? settings_.blank_token : sample.tokens[at + tokens - 1];
  for (size_t t = at + tokens; t < at + static_cast<size_t>(settings_.packing.places(part.tokens));
       ++t) {
    sample.tokens[t] = last;
    sample.position_ids[t] = sample.position_ids[at + tokens - 1];
  }
}

int64_t ConversationDataset::most_documents() const {
  std::call_once(counted_, [&] {
    const ConversationIndex& index = stored_.get();
    for (int64_t row = 0; row < index.rows(); ++row) {
      const auto [first, end] = index.row(row);
      most_documents_ = std::max(most_documents_, end - first + 1);
    }
  });
  return most_documents_;
}

void ConversationDataset::get(int64_t row, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, row >= 0 && row < size(), "dataset {}: row {} of {}",
                dataset().prefix(), row, size());
  const ConversationIndex& index = stored_.get();
  VIADUCT_CHECK(IoError, row < index.rows(),
                "dataset {}: the cached order has {} rows, expected {}", dataset().prefix(),
                index.rows(), size());
  const std::vector<Part> parts = parts_of(index, row);
  index.check_read();
  const auto length = static_cast<size_t>(settings_.packing.row_tokens);
  sample.tokens.assign(length, settings_.blank_token);
  sample.labels.assign(length, 0);
  sample.loss_mask.assign(length, 0.0f);
  sample.position_ids.assign(length, 0);
  sample.padding.assign(length, 1);
  sample.cu_seqlens.assign(1, 0);
  sample.images = {};
  size_t at = 0;
  std::vector<int32_t> scratch;
  for (const Part& part : parts) {
    append(part, scratch, at, sample);
    if (settings_.images) settings_.images->append(part.sequence, sample.images);
    at += static_cast<size_t>(settings_.packing.places(part.tokens));
    sample.cu_seqlens.push_back(static_cast<int32_t>(at));
  }
  dataset().check_read();
  if (at < length) sample.cu_seqlens.push_back(static_cast<int32_t>(length));
  if (!settings_.pad_cu_seqlens) return;
  const auto borders = static_cast<size_t>(most_documents()) + 1;
  if (sample.cu_seqlens.size() < borders)
    sample.cu_seqlens.resize(borders, static_cast<int32_t>(length));
}

bool ConversationDataset::scores_first(int64_t row) const {
  const Part first = parts_of(stored_.get(), row).front();
  int32_t scored = 0;
  mask_.read(first.sequence, first.offset, {&scored, 1});
  return scored != 0;
}

int64_t ConversationDataset::rows_per_epoch() const {
  const DocumentRange range = documents();
  int64_t left = 0, rows = 0;
  for (int64_t i = range.first; i < range.end; ++i) left += dataset().sequence_length(i);
  const ConversationIndex& index = stored_.get();
  for (; left > 0 && rows < index.rows(); ++rows) {
    for (const Part& part : parts_of(index, rows)) left -= part.tokens;
  }
  return rows;
}

ConversationUse ConversationDataset::use() const {
  ConversationUse use;
  const DocumentRange range = documents();
  for (int64_t i = range.first; i < range.end; ++i) {
    const int64_t tokens = dataset().sequence_length(i);
    use.conversations += tokens > 0 ? 1 : 0;
    use.tokens += tokens;
  }
  use.rows = rows_per_epoch();
  use.padding = 1 - static_cast<double>(use.tokens) /
                        (static_cast<double>(use.rows) * static_cast<double>(sequence_length()));
  use.scored = settings_.answer_only_loss ? mask_.scored_share(range.first, range.end)
                                          : static_cast<double>(use.tokens - use.conversations) /
                                                static_cast<double>(use.tokens);
  return use;
}

}  // namespace viaduct
