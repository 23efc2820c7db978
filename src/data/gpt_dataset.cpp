#include "data/gpt_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/fill_in_middle.h"
#include "data/image_token_check.h"

namespace viaduct {

GptDataset::GptDataset(GptIndexRequest request, IndexStorage storage, const RowSettings& settings,
                       std::optional<int64_t> vocabulary_size,
                       std::shared_ptr<const FillInMiddle> fill_in_middle)
    : settings_(settings),
      vocabulary_size_(vocabulary_size),
      fill_in_middle_(std::move(fill_in_middle)),
      stored_(std::move(request), std::move(storage)) {}

bool GptDataset::same_order_for(std::optional<int64_t> num_samples) const {
  if (!stored_.plan()) return true;
  const int64_t tokens = stored_.plan()->tokens_per_epoch, length = settings_.sequence_length;
  const EpochPlan now = plan_epochs(tokens, this->num_samples(), length),
                  then = plan_epochs(tokens, num_samples, length);
  return now.count == then.count && now.last_apart == then.last_apart;
}

void GptDataset::read_stream(const GptIndex& index, int64_t sample, std::span<int32_t> row) const {
  const IndexedDataset& dataset = this->dataset();
  const auto damaged = [&](const char* what, int64_t found, int64_t end) {
    dataset.check_read();
    index.check_read();
    fail_damaged_order(dataset.prefix(), stored_.request().split, fmt::format("sample {}", sample),
                       what, found, end);
  };
  if (sample < 0 || sample >= index.samples()) damaged("number", sample, index.samples());
  const SampleStart begin = index.start(sample), end = index.start(sample + 1);
  if (end.position < 0 || end.position >= index.documents())
    damaged("position", end.position, index.documents());
  if (begin.position < 0 || begin.position > end.position)
    damaged("position", begin.position, end.position + 1);
  size_t filled = 0;
  for (int64_t position = begin.position; position <= end.position; ++position) {
    const int64_t sequence = index.document(position);
    if (sequence < 0 || sequence >= dataset.sequence_count())
      damaged("document", sequence, dataset.sequence_count());
    const int64_t from = position == begin.position ? begin.offset : 0;
    const int64_t to =
        position == end.position ? end.offset + 1 : dataset.sequence_length(sequence);
    const auto left = static_cast<int64_t>(row.size() - filled);
    if (from < 0 || to < from || to - from > left) damaged("offset", to, left + from + 1);
    const auto piece = row.subspan(filled, static_cast<size_t>(to - from));
    dataset.read(sequence, from, piece);
    check_no_image_token(dataset, sequence, from, piece, settings_.image_token);
    filled += static_cast<size_t>(to - from);
  }
  dataset.check_read();
  index.check_read();
  VIADUCT_CHECK(IoError, filled == row.size(), "dataset {}: sample {} has {} tokens, expected {}",
                dataset.prefix(), sample, filled, row.size());
}

void GptDataset::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "dataset {}: sample {} of {}",
                dataset().prefix(), index, size());
  const GptIndex& order = stored_.get();
  // S + 1 tokens into `labels`; tokens are the first S of them, labels the last S.
  sample.labels.resize(static_cast<size_t>(settings_.sequence_length) + 1);
  const std::span<int32_t> row(sample.labels);
  read_stream(order, order.shuffled(index), row);
  if (vocabulary_size_) {
    const int32_t largest = *std::max_element(row.begin(), row.end());
    VIADUCT_CHECK(
        IoError, largest < *vocabulary_size_,
        "dataset {}: sample {} holds token id {}, but the model's vocabulary has {} entries",
        dataset().prefix(), index, largest, *vocabulary_size_);
  }
  if (fill_in_middle_) fill_in_middle_->apply(order.shuffled(index), row);
  sample.tokens.assign(row.begin(), row.end() - 1);
  sample.labels.erase(sample.labels.begin());
  sample.images = {};
  fill_masks_and_positions(settings_, sample);
  if (!fill_in_middle_) return;
  for (size_t t = 0; t < sample.labels.size(); ++t) {
    if (sample.labels[t] == fill_in_middle_->pad()) sample.loss_mask[t] = 0;
  }
}

}  // namespace viaduct
