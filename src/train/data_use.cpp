#include "train/data_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/terminal_text.h"
#include "base/units.h"
#include "data/blended_dataset.h"
#include "data/conversation_dataset.h"
#include "data/file_dataset.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {
namespace {

// Further epochs gain almost nothing after about 16 (Muennighoff et al. 2023, "Scaling
// Data-Constrained Language Models", figure 5).
constexpr double kManyEpochs = 16;

double epochs(const DataUse& use, int64_t row_tokens) {
  if (use.epoch_rows > 0)
    return static_cast<double>(use.rows) / static_cast<double>(use.epoch_rows);
  return static_cast<double>(use.rows) * static_cast<double>(row_tokens) /
         static_cast<double>(use.tokens);
}

/// A row needs one token more than it has, for its last target.
int64_t rows_of_an_epoch(const DataUse& use, int64_t row_tokens) {
  return use.epoch_rows > 0 ? use.epoch_rows : (use.tokens - 1) / row_tokens;
}

/// `rows` in parts in proportion to `shares`: their sum is `rows`.
std::vector<int64_t> divided(int64_t rows, const std::vector<int64_t>& shares) {
  const auto total = static_cast<double>(std::accumulate(shares.begin(), shares.end(), int64_t{0}));
  std::vector<int64_t> parts;
  double so_far = 0;
  int64_t given = 0;
  for (const int64_t share : shares) {
    so_far += static_cast<double>(share);
    const int64_t end =
        total > 0 ? std::llround(static_cast<double>(rows) * (so_far / total)) : int64_t{0};
    parts.push_back(end - given);
    given = end;
  }
  return parts;
}

const DataUse& most_read(const std::vector<DataUse>& uses, int64_t row_tokens) {
  return *std::ranges::max_element(uses, {},
                                   [&](const DataUse& use) { return epochs(use, row_tokens); });
}

}  // namespace

std::vector<DataUse> data_use(const SampleSource& training, int64_t rows) {
  std::vector<DataUse> uses;
  const auto add = [&](const SampleSource& source, int64_t read) {
    const auto* dataset = dynamic_cast<const FileDataset*>(&source);
    if (dataset == nullptr || !dataset->tokens_per_epoch()) return;
    uses.push_back({dataset->dataset().prefix(), *dataset->tokens_per_epoch(), read,
                    dataset->rows_per_epoch()});
  };
  const auto* blend = dynamic_cast<const BlendedDataset*>(&training);
  if (blend == nullptr) {
    add(training, rows);
    return uses;
  }
  // Each is opened for its share of the blend and a surplus; without weights, its size is its
  // share.
  std::vector<int64_t> shares;
  for (const auto& source : blend->sources()) {
    const auto* dataset = dynamic_cast<const FileDataset*>(source.get());
    shares.push_back(dataset == nullptr ? 0 : dataset->num_samples().value_or(source->size()));
  }
  const std::vector<int64_t> read = divided(rows, shares);
  for (size_t i = 0; i < read.size(); ++i) add(*blend->sources()[i], read[i]);
  return uses;
}

std::vector<std::string> conversation_texts(const SampleSource& training) {
  std::vector<std::string> lines;
  const auto add = [&](const SampleSource& source) {
    const auto* dataset = dynamic_cast<const ConversationDataset*>(&source);
    if (dataset == nullptr) return;
    const ConversationUse use = dataset->use();
    lines.push_back(fmt::format(
        "dataset {}: {} of {} in {} of {} an epoch; padding {:.1f} %, scored {:.1f} % of their "
        "tokens",
        dataset->dataset().prefix(), counted(use.conversations, "conversation"),
        counted(use.tokens, "token"), counted(use.rows, "row"),
        counted(dataset->sequence_length(), "token"), 100 * use.padding, 100 * use.scored));
  };
  const auto* blend = dynamic_cast<const BlendedDataset*>(&training);
  if (blend == nullptr) {
    add(training);
  } else {
    for (const auto& source : blend->sources()) add(*source);
  }
  return lines;
}

std::string marked_text(const Sample& row, const Tokenizer& tokenizer, bool colours,
                        size_t most_bytes) {
  if (row.padding.empty()) return "";
  const std::string_view begin_mark = colours ? "\033[32m" : "[",
                         end_mark = colours ? "\033[0m" : "]";
  std::string line;
  size_t shown = 0;  // bytes without marks
  bool scored = false, full = false;
  const auto mark = [&](bool now) {
    if (now != scored) line += now ? begin_mark : end_mark;
    scored = now;
  };
  const auto append = [&](const std::string& text) {
    for (const char c : terminal_text(text)) {
      // Not inside a character.
      full = full || (shown >= most_bytes && (static_cast<unsigned char>(c) & 0xC0) != 0x80);
      if (full) return;
      line += c == '\n' ? std::string("\\n") : std::string(1, c);
      ++shown;
    }
  };
  for (size_t d = 1; d < row.cu_seqlens.size() && !full; ++d) {
    const auto begin = static_cast<size_t>(row.cu_seqlens[d - 1]),
               end = static_cast<size_t>(row.cu_seqlens[d]);
    DecodeStream stream(tokenizer);
    for (size_t t = begin; t < end && row.padding[t] == 0 && !full; ++t) {
      mark(t > begin && row.loss_mask[t - 1] > 0);
      const int32_t id = row.tokens[t];
      if (id < tokenizer.vocab_size()) {
        append(stream.push(id));
      } else {  // of a model with more rows than its tokenizer has tokens
        append(stream.finish() + fmt::format("<id {}>", id));
      }
    }
    append(stream.finish());
    mark(false);
  }
  return full ? line + " …" : line;
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
