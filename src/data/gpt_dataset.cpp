#include "data/gpt_dataset.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace viaduct {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> dataset, Split split,
                       DocumentRange range, std::optional<int64_t> num_samples,
                       uint32_t random_seed, const RowSettings& settings,
                       std::optional<int64_t> vocabulary_size)
    : dataset_(std::move(dataset)),
      range_(range),
      num_samples_(num_samples),
      settings_(settings),
      vocabulary_size_(vocabulary_size),
      index_(build_gpt_index(*dataset_, split, range, num_samples, settings.sequence_length,
                             random_seed)) {}

void GptDataset::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "dataset {}: sample {} of {}",
                dataset_->prefix(), index, size());
  const int64_t shuffled = index_.shuffle_index[index];
  const SampleStart begin = index_.start(shuffled), end = index_.start(shuffled + 1);
  const size_t length = static_cast<size_t>(settings_.sequence_length);

  // S + 1 tokens into `labels`; tokens are the first S of them, labels the last S.
  sample.labels.resize(length + 1);
  const std::span<int32_t> row(sample.labels);
  size_t filled = 0;
  for (int64_t position = begin.position; position <= end.position; ++position) {
    const int32_t sequence = index_.document_index[static_cast<size_t>(position)];
    const int64_t from = position == begin.position ? begin.offset : 0;
    const int64_t to =
        position == end.position ? end.offset + 1 : dataset_->sequence_length(sequence);
    dataset_->read(sequence, from, row.subspan(filled, static_cast<size_t>(to - from)));
    filled += static_cast<size_t>(to - from);
  }
  dataset_->check_read();
  VIADUCT_CHECK(IoError, filled == length + 1, "dataset {}: sample {} has {} tokens, expected {}",
                dataset_->prefix(), index, filled, length + 1);
  if (vocabulary_size_) {
    const int32_t largest = *std::max_element(row.begin(), row.end());
    VIADUCT_CHECK(
        IoError, largest < *vocabulary_size_,
        "dataset {}: sample {} holds token id {}, but the model's vocabulary has {} entries",
        dataset_->prefix(), index, largest, *vocabulary_size_);
  }
  sample.tokens.assign(row.begin(), row.end() - 1);
  sample.labels.erase(sample.labels.begin());
  fill_masks_and_positions(settings_, sample);
}

}  // namespace viaduct
