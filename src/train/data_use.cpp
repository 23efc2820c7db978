#include "train/data_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "data/blended_dataset.h"
#include "data/gpt_dataset.h"

namespace viaduct {
namespace {

// Further epochs gain almost nothing after about 16 (Muennighoff et al. 2023, "Scaling
// Data-Constrained Language Models", figure 5).
constexpr double kManyEpochs = 16;

double epochs(const DataUse& use, int64_t row_tokens) {
  return static_cast<double>(use.rows) * static_cast<double>(row_tokens) /
         static_cast<double>(use.tokens);
}

/// A row needs one token more than it has, for its last target.
int64_t rows_of_an_epoch(const DataUse& use, int64_t row_tokens) {
  return (use.tokens - 1) / row_tokens;
}

const DataUse& most_read(const std::vector<DataUse>& uses, int64_t row_tokens) {
  return *std::ranges::max_element(uses, {},
                                   [&](const DataUse& use) { return epochs(use, row_tokens); });
}

}  // namespace

std::vector<DataUse> data_use(const SampleSource& training, int64_t rows) {
  std::vector<DataUse> uses;
  const auto add = [&](const SampleSource& source, int64_t read) {
    const auto* dataset = dynamic_cast<const GptDataset*>(&source);
    if (dataset == nullptr || !dataset->tokens_per_epoch()) return;
    uses.push_back({dataset->dataset().prefix(), *dataset->tokens_per_epoch(), read});
  };
  const auto* blend = dynamic_cast<const BlendedDataset*>(&training);
  if (blend == nullptr) {
    add(training, rows);
    return uses;
  }
  // Without a number of its own, a data set of a blend is read once.
  for (const auto& source : blend->sources()) {
    const auto* dataset = dynamic_cast<const GptDataset*>(source.get());
    add(*source, dataset == nullptr ? 0 : dataset->num_samples().value_or(source->size()));
  }
  return uses;
}

std::string data_use_text(const std::vector<DataUse>& uses, int64_t row_tokens) {
  if (uses.empty()) return "";
  int64_t an_epoch = 0, rows = 0;
  for (const DataUse& use : uses) {
    an_epoch += rows_of_an_epoch(use, row_tokens);
    rows += use.rows;
  }
  const DataUse& most = most_read(uses, row_tokens);
  const double times = epochs(most, row_tokens);
  if (uses.size() == 1) {
    return fmt::format("data: {} of {} an epoch; the run reads {} (epochs: {:.3g})",
                       counted(an_epoch, "row"), counted(row_tokens, "token"), rows, times);
  }
  return fmt::format(
      "data: {} data sets with {} of {} an epoch; the run reads {} (most epochs: {:.3g} of {})",
      uses.size(), counted(an_epoch, "row"), counted(row_tokens, "token"), rows, times,
      most.prefix);
}

std::string data_use_warning(const std::vector<DataUse>& uses, int64_t row_tokens) {
  if (uses.empty()) return "";
  const DataUse& most = most_read(uses, row_tokens);
  const double times = epochs(most, row_tokens);
  if (rows_of_an_epoch(most, row_tokens) == 0) {
    return fmt::format(
        "dataset {}: its {} fewer than the {} of one row and its last "
        "target, so every row repeats them; expected more text, or a smaller model.seq_length",
        most.prefix, counted(most.tokens, "token for training is", "tokens for training are"),
        row_tokens + 1);
  }
  if (times <= kManyEpochs) return "";
  return fmt::format(
      "dataset {}: the run reads its {} tokens for training {:.3g} times; after about {:.0f} times "
      "a model learns a text by heart: expected more text, or fewer steps (train.train_iters)",
      most.prefix, most.tokens, times, kManyEpochs);
}

}  // namespace viaduct
