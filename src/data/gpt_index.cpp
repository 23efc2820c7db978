#include "data/gpt_index.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/physical_memory.h"
#include "base/units.h"
#include "data/empty_split.h"
#include "data/numpy_random.h"

namespace viaduct {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

std::vector<int32_t> build_document_index(DocumentRange range, const GptIndexPlan& plan,
                                          NumpyRandomState& random) {
  std::vector<int32_t> index(static_cast<size_t>(plan.documents));
  for (auto at = index.begin(); at != index.end(); at += range.size())
    std::iota(at, at + range.size(), static_cast<int32_t>(range.first));
  const std::span<int32_t> all(index);
  random.shuffle(all.first(static_cast<size_t>(plan.documents_together)));
  random.shuffle(all.subspan(static_cast<size_t>(plan.documents_together)));
  return index;
}

/// Walks the documents once; each sample begins S tokens after the one before it.
class SampleWalk {
 public:
  SampleWalk(const IndexedDataset& dataset, std::span<const int32_t> documents, int64_t length)
      : dataset_(dataset), documents_(documents), sequence_length_(length) {
    length_ = dataset.sequence_length(documents[0]);
  }

  SampleStart start() const { return {position_, offset_}; }
  void next() {
    // S + 1 tokens are read and the last is read again by the next sample, so a sample that ends
    // with its document leaves the start at that document's last token rather than at the next
    // document.
    int64_t left = sequence_length_ + 1;
    while (left > length_ - offset_) {
      left -= length_ - offset_;
      next_document();
    }
    offset_ += left - 1;
  }

 private:
  void next_document() {
    const auto count = static_cast<int64_t>(documents_.size());
    if (++position_ >= count) {
      dataset_.check_read();
      fail<IoError>("{}.idx: the lengths of its sequences changed while they were read",
                    dataset_.prefix());
    }
    // Lengths are read in shuffled order; without prefetching, each read would stall on memory.
    constexpr int64_t kAhead = 32;
    if (position_ + kAhead < count)
      dataset_.prefetch_length(documents_[static_cast<size_t>(position_ + kAhead)]);
    length_ = dataset_.sequence_length(documents_[static_cast<size_t>(position_)]);
    offset_ = 0;
  }

  const IndexedDataset& dataset_;
  std::span<const int32_t> documents_;
  int64_t sequence_length_;
  int64_t position_ = 0, offset_ = 0, length_ = 0;
};

template <class T>
void write_sample_index(SampleWalk walk, int64_t samples, IndexSink& sink) {
  constexpr size_t kValues = size_t{1} << 16;
  std::vector<T> values;
  values.reserve(kValues);
  for (int64_t sample = 0; sample <= samples; ++sample) {
    if (sample > 0) walk.next();
    values.push_back(static_cast<T>(walk.start().position));
    values.push_back(static_cast<T>(walk.start().offset));
    if (values.size() < kValues && sample < samples) continue;
    sink.write(values.data(), values.size() * sizeof(T));
    values.clear();
  }
}

template <class T>
void write_shuffle_index(const GptIndexPlan& plan, NumpyRandomState& random, IndexSink& sink) {
  std::vector<T> entries(static_cast<size_t>(plan.samples));
  std::iota(entries.begin(), entries.end(), T{0});
  const std::span<T> all(entries);
  random.shuffle(all.first(static_cast<size_t>(plan.samples_together)));
  random.shuffle(all.subspan(static_cast<size_t>(plan.samples_together)));
  sink.write(entries.data(), entries.size() * sizeof(T));
}

/// Checked now: a mistyped, far too large number of samples would otherwise exhaust memory.
void check_memory(const IndexedDataset& dataset, Split split, DocumentRange range,
                  const GptIndexPlan& plan, double documents) {
  const double bytes = documents * sizeof(int32_t) +
                       static_cast<double>(plan.samples) * (2 * sizeof(int32_t) + sizeof(int32_t));
  VIADUCT_CHECK(ConfigError, bytes < physical_memory_bytes(),
                "dataset {}: the order of its {} split ({} for {}, {}) "
                "would take {:.0f} GiB, more than this machine's memory",
                dataset.prefix(), split_name(split), counted(range.size(), "sequence"),
                counted(plan.epochs, "epoch"), counted(plan.samples, "sample"), bytes / (1 << 30));
}

}  // namespace

EpochPlan plan_epochs(int64_t tokens_per_epoch, std::optional<int64_t> num_samples,
                      int64_t sequence_length) {
  EpochPlan epochs;
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

GptIndexPlan plan_gpt_index(const IndexedDataset& dataset, Split split, DocumentRange range,
                            std::optional<int64_t> num_samples, int64_t sequence_length) {
  VIADUCT_CHECK(ConfigError, sequence_length >= 1 && sequence_length < kInt32Max,
                "sequence length {}, expected 1 to {}", sequence_length, kInt32Max - 1);
  VIADUCT_CHECK(ConfigError, !num_samples || *num_samples >= 0,
                "{} samples asked for, expected 0 or more", *num_samples);
  VIADUCT_CHECK(
      ConfigError,
      range.first >= 0 && range.first <= range.end && range.end <= dataset.sequence_count(),
      "dataset {}: sequences [{}, {}) of {}", dataset.prefix(), range.first, range.end,
      dataset.sequence_count());
  VIADUCT_CHECK(ConfigError, dataset.sequence_count() <= kInt32Max,
                "dataset {}: {} sequences, more than the {} that the document index can number; "
                "split the file",
                dataset.prefix(), dataset.sequence_count(), kInt32Max);
  GptIndexPlan plan;
  for (int64_t i = range.first; i < range.end; ++i)
    plan.tokens_per_epoch += dataset.sequence_length(i);
  VIADUCT_CHECK(
      ConfigError, plan.tokens_per_epoch >= 2,
      "dataset {}: its {} split is empty: sequences [{}, {}) of {} hold {} of {}{} "
      "({} asked for){}",
      dataset.prefix(), split_name(split), range.first, range.end, dataset.sequence_count(),
      plan.tokens_per_epoch, counted(dataset.total_tokens(), "token"),
      dataset.total_tokens() < 2
          ? ", fewer than the two of one prediction: the text that it was made from is empty"
          : "",
      num_samples ? counted(*num_samples, "sample") : std::string("all samples"),
      empty_split_advice(split, range, dataset.sequence_count()));
  const EpochPlan epochs = plan_epochs(plan.tokens_per_epoch, num_samples, sequence_length);
  plan.epochs = epochs.count;
  plan.samples = (epochs.count * plan.tokens_per_epoch - 1) / sequence_length;
  check_memory(dataset, split, range, plan,
               static_cast<double>(epochs.count) * static_cast<double>(range.size()));
  plan.documents = epochs.count * range.size();
  plan.documents_together = epochs.last_apart ? plan.documents - range.size() : plan.documents;
  plan.samples_together = epochs.last_apart ? epochs.samples_before_last : plan.samples;
  return plan;
}

std::vector<IndexShape> GptIndexPlan::shapes() const {
  // Lengths of documents, and so offsets, are int32 always.
  const bool wide_starts = documents > kInt32Max;
  const bool wide_shuffle =
      samples >= static_cast<int64_t>(std::numeric_limits<uint32_t>::max()) - 1;
  return {{IndexType::int32, documents, 0},
          {wide_starts ? IndexType::int64 : IndexType::int32, samples + 1, 2},
          {wide_shuffle ? IndexType::int64 : IndexType::uint32, samples, 0}};
}

void build_gpt_index(const IndexedDataset& dataset, DocumentRange range, const GptIndexPlan& plan,
                     int64_t sequence_length, uint32_t random_seed, IndexSink& sink) {
  const auto shapes = plan.shapes();
  NumpyRandomState random(random_seed);
  {
    const std::vector<int32_t> documents = build_document_index(range, plan, random);
    sink.begin(shapes[0]);
    sink.write(documents.data(), documents.size() * sizeof(int32_t));
    sink.begin(shapes[1]);
    const SampleWalk walk(dataset, documents, sequence_length);
    if (shapes[1].type == IndexType::int32) {
      write_sample_index<int32_t>(walk, plan.samples, sink);
    } else {
      write_sample_index<int64_t>(walk, plan.samples, sink);
    }
  }
  dataset.check_read();
  sink.begin(shapes[2]);
  if (shapes[2].type == IndexType::uint32) {
    write_shuffle_index<uint32_t>(plan, random, sink);
  } else {
    write_shuffle_index<int64_t>(plan, random, sink);
  }
}

GptIndex::GptIndex(std::vector<IndexArray> arrays)
    : documents_(std::move(arrays.at(0))),
      starts_(std::move(arrays.at(1))),
      shuffle_(std::move(arrays.at(2))) {
  VIADUCT_CHECK(IoError,
                documents_.shape().columns == 0 && starts_.shape().columns == 2 &&
                    shuffle_.shape().columns == 0 && starts_.shape().rows == samples() + 1,
                "a document index of {}, a sample index of {} and a shuffle index of {} do not "
                "belong together",
                describe(documents_.shape()), describe(starts_.shape()),
                describe(shuffle_.shape()));
}

void GptIndex::check_read() const {
  documents_.check_read();
  starts_.check_read();
  shuffle_.check_read();
}

}  // namespace viaduct
