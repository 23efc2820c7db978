#include "data/gpt_index.h"

#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/physical_memory.h"
#include "data/numpy_random.h"

namespace viaduct {
namespace {

struct Epochs {
  int64_t count = 1;
  bool last_apart = false;
  int64_t samples_before_last = 0;
};

Epochs count_epochs(int64_t tokens_per_epoch, std::optional<int64_t> num_samples,
                    int64_t sequence_length) {
  Epochs epochs;
  if (!num_samples) return epochs;
  // Samples overlap by one token, so n of them need n * S + 1.
  const __int128 needed = static_cast<__int128>(*num_samples) * sequence_length + 1;
  const __int128 count = (needed + tokens_per_epoch - 1) / tokens_per_epoch;
  VIADUCT_CHECK(ConfigError, count * tokens_per_epoch <= std::numeric_limits<int64_t>::max(),
                "{} samples of {} tokens are more than 2^63 tokens", *num_samples, sequence_length);
  epochs.count = std::max<int64_t>(1, static_cast<int64_t>(count));
  if (epochs.count == 1) return epochs;
  epochs.samples_before_last = ((epochs.count - 1) * tokens_per_epoch - 1) / sequence_length;
  const int64_t from_last = *num_samples - epochs.samples_before_last;
  const int64_t per_epoch = (tokens_per_epoch - 1) / sequence_length;
  epochs.last_apart = from_last < static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
  return epochs;
}

std::vector<int32_t> build_document_index(DocumentRange range, const Epochs& epochs,
                                          NumpyRandomState& random) {
  std::vector<int32_t> index(static_cast<size_t>(epochs.count * range.size()));
  for (size_t at = 0; at < index.size(); at += static_cast<size_t>(range.size())) {
    std::iota(index.begin() + static_cast<int64_t>(at),
              index.begin() + static_cast<int64_t>(at) + range.size(),
              static_cast<int32_t>(range.first));
  }
  const std::span<int32_t> all(index);
  const size_t together =
      epochs.last_apart ? index.size() - static_cast<size_t>(range.size()) : index.size();
  random.shuffle(all.first(together));
  random.shuffle(all.subspan(together));
  return index;
}

// Walks the documents once; each sample begins S tokens after the one before it.
void build_sample_index(const IndexedDataset& dataset, int64_t samples, int64_t sequence_length,
                        GptIndex& index) {
  index.positions.resize(static_cast<size_t>(samples) + 1);
  index.offsets.resize(static_cast<size_t>(samples) + 1);
  int64_t position = 0;
  int64_t offset = 0, length = dataset.sequence_length(index.document_index[0]);
  index.positions[0] = 0;
  index.offsets[0] = 0;
  for (int64_t sample = 1; sample <= samples; ++sample) {
    // S + 1 tokens are read and the last is read again by the next sample, so a sample that ends
    // with its document leaves the start at that document's last token rather than at the next
    // document.
    int64_t left = sequence_length + 1;
    while (left > length - offset) {
      left -= length - offset;
      if (++position == static_cast<int64_t>(index.document_index.size())) {
        dataset.check_read();
        fail<IoError>("{}.idx: the lengths of its sequences are not what they were a moment ago",
                      dataset.prefix());
      }
      length = dataset.sequence_length(index.document_index[static_cast<size_t>(position)]);
      offset = 0;
    }
    offset += left - 1;
    index.positions[static_cast<size_t>(sample)] = position;
    index.offsets[static_cast<size_t>(sample)] = static_cast<int32_t>(offset);
  }
}

template <class T>
ShuffleIndex shuffled(int64_t together, int64_t total, NumpyRandomState& random) {
  std::vector<T> entries(static_cast<size_t>(total));
  std::iota(entries.begin(), entries.end(), T{0});
  const std::span<T> all(entries);
  random.shuffle(all.first(static_cast<size_t>(together)));
  random.shuffle(all.subspan(static_cast<size_t>(together)));
  return ShuffleIndex(std::move(entries));
}

}  // namespace

GptIndex build_gpt_index(const IndexedDataset& dataset, Split split, DocumentRange range,
                         std::optional<int64_t> num_samples, int64_t sequence_length,
                         uint32_t random_seed) {
  VIADUCT_CHECK(ConfigError,
                sequence_length >= 1 && sequence_length < std::numeric_limits<int32_t>::max(),
                "sequence length {}, expected 1 to {}", sequence_length,
                std::numeric_limits<int32_t>::max() - 1);
  VIADUCT_CHECK(ConfigError, !num_samples || *num_samples >= 0,
                "{} samples asked for, expected 0 or more", *num_samples);
  VIADUCT_CHECK(
      ConfigError,
      range.first >= 0 && range.first <= range.end && range.end <= dataset.sequence_count(),
      "dataset {}: sequences [{}, {}) of {}", dataset.prefix(), range.first, range.end,
      dataset.sequence_count());
  VIADUCT_CHECK(ConfigError, dataset.sequence_count() <= std::numeric_limits<int32_t>::max(),
                "dataset {}: {} sequences, more than the {} that the document index can number; "
                "split the file",
                dataset.prefix(), dataset.sequence_count(), std::numeric_limits<int32_t>::max());
  GptIndex index;
  for (int64_t i = range.first; i < range.end; ++i)
    index.tokens_per_epoch += dataset.sequence_length(i);
  VIADUCT_CHECK(ConfigError, index.tokens_per_epoch >= 2,
                "dataset {}: its {} split is empty: sequences [{}, {}) of {} hold {} of {} tokens "
                "({} samples asked for)",
                dataset.prefix(), split_name(split), range.first, range.end,
                dataset.sequence_count(), index.tokens_per_epoch, dataset.total_tokens(),
                num_samples ? std::to_string(*num_samples) : std::string("all"));

  const Epochs epochs = count_epochs(index.tokens_per_epoch, num_samples, sequence_length);
  const int64_t samples = (epochs.count * index.tokens_per_epoch - 1) / sequence_length;
  const bool wide = samples >= static_cast<int64_t>(std::numeric_limits<uint32_t>::max()) - 1;
  // Said now: a number of samples with three zeros too many would otherwise be killed for memory.
  const double index_bytes =
      static_cast<double>(epochs.count) * static_cast<double>(range.size()) * sizeof(int32_t) +
      static_cast<double>(samples) *
          static_cast<double>(sizeof(int64_t) + sizeof(int32_t) +
                              (wide ? sizeof(int64_t) : sizeof(uint32_t)));
  VIADUCT_CHECK(ConfigError, index_bytes < physical_memory_bytes(),
                "dataset {}: the order of its {} split ({} sequences for {} epochs, {} samples) "
                "would take {:.0f} GiB, more than this machine's memory",
                dataset.prefix(), split_name(split), range.size(), epochs.count, samples,
                index_bytes / (1 << 30));
  index.epochs = epochs.count;
  NumpyRandomState random(random_seed);
  index.document_index = build_document_index(range, epochs, random);
  build_sample_index(dataset, samples, sequence_length, index);
  const int64_t together = epochs.last_apart ? epochs.samples_before_last : samples;
  index.shuffle_index = wide ? shuffled<int64_t>(together, samples, random)
                             : shuffled<uint32_t>(together, samples, random);
  dataset.check_read();
  return index;
}

}  // namespace viaduct
