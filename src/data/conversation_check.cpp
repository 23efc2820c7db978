#include "data/conversation_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "data/score_mask.h"
#include "data/split_choice.h"

namespace viaduct {
namespace {

/// How many sequences of a range are too long, and the longest.
struct TooLong {
  int64_t count = 0, longest = 0, sequence = 0;
};

TooLong too_long(const IndexedDataset& dataset, DocumentRange range, int64_t limit) {
  TooLong found;
  for (int64_t i = range.first; i < range.end; ++i) {
    const int64_t length = dataset.sequence_length(i);
    if (length <= limit) continue;
    ++found.count;
    if (length > found.longest) found.longest = length, found.sequence = i;
  }
  return found;
}

/// The setting that gives rows their length, to be followed by its value.
std::string row_setting(const PackingSettings& packing, const std::string& given_by) {
  if (!given_by.empty()) return given_by;
  return packing.algorithm == PackingAlgorithm::none ? "dataset.sequence_length="
                                                     : "dataset.packed_sequence_size=";
}

/// "dataset.sequence_length=40 model.seq_length=40": what conversations of `row` tokens need;
/// `longer_rows`: rows have fewer.
std::string lengths(const PackingSettings& packing, const ConversationLimits& limits, int64_t row,
                    bool longer_rows) {
  const std::string rows = row_setting(packing, limits.length_given_by);
  std::vector<std::string> settings;
  if (longer_rows) settings.push_back(fmt::format("{}{}", rows, row));
  for (const auto& [name, given] : limits.also_given) {
    if (given < row && name + "=" != rows) settings.push_back(fmt::format("{}={}", name, row));
  }
  return fmt::format("{}", fmt::join(settings, " "));
}

/// Settings that take conversations of `longest` tokens, where one may have `limit`.
std::string advice(const PackingSettings& packing, const ConversationLimits& limits, int64_t limit,
                   int64_t longest) {
  const bool packed = packing.algorithm != PackingAlgorithm::none;
  const int64_t multiple = std::lcm(limits.row_multiple, packed ? packing.multiple : int64_t{1});
  const int64_t row = (longest + multiple - 1) / multiple * multiple;
  if (!limits.positions || row <= *limits.positions) {
    // Of packed rows a smaller model.seq_length is the most that a conversation may have.
    if (row <= packing.row_tokens) return lengths(packing, limits, row, false);
    return fmt::format("rows for it ({})", lengths(packing, limits, row, true));
  }
  const int64_t part = std::max(multiple, limit / multiple * multiple);
  std::string size;
  if (!packed) {
    size = fmt::format("dataset.packed_sequence_size={} ", part);
  } else if (part != packing.row_tokens) {
    size = fmt::format("{}{} ", row_setting(packing, limits.length_given_by), part);
  }
  return fmt::format("{}dataset.packing_split=true, which cuts it, as the model has {} positions",
                     size, *limits.positions);
}

/// What of a data set's part in a split can be learned.
enum class Scored { some, none, no_tokens };

Scored scored_tokens(const std::shared_ptr<const IndexedDataset>& dataset, DocumentRange range,
                     bool answer_only) {
  bool tokens = false;
  for (int64_t i = range.first; i < range.end; ++i) {
    const int64_t length = dataset->sequence_length(i);
    tokens = tokens || length > 0;
    // Nothing predicts the first token.
    if (length > 1 && !answer_only) return Scored::some;
  }
  dataset->check_read();
  if (!tokens) return Scored::no_tokens;
  if (!answer_only) return Scored::none;
  const ScoreMask mask(
      dataset,
      std::make_shared<const IndexedDataset>(mask_prefix(dataset->prefix()), IndexCheck::on_use),
      IndexCheck::on_use);
  return mask.any_scored(range.first, range.end) ? Scored::some : Scored::none;
}

/// Adds to `warnings`.
void check_split(const DatasetConfig& config, Split split, const SplitChoice& choice,
                 const NamedTokenizer& tokenizer, std::vector<std::string>& warnings) {
  const PackingConfig& packing = config.packing;
  const PackingSettings settings = packing_settings(packing, config.sequence_length.value());
  std::vector<std::string> unscored;
  bool any = false;
  for (const std::string& prefix : choice.blend.prefixes) {
    try {
      const auto file = std::make_shared<const IndexedDataset>(prefix);
      if (!has_mask(prefix)) {
        any = true;
        continue;
      }
      const DocumentRange range = split_range(choice.fractions, file->sequence_count());
      try {
        check_conversation_lengths(*file, split, range, settings, packing.limits);
      } catch (const ConfigError&) {
        // The tokens of another tokenizer have other lengths: that comes first.
        check_tokenizer(*file, tokenizer);
        throw;
      }
      const Scored scored = scored_tokens(file, range, packing.answer_only_loss);
      any = any || scored == Scored::some;
      if (scored == Scored::none) unscored.push_back(prefix);
    } catch (const IoError&) {
      any = true;
    }
  }
  if (unscored.empty()) return;
  const bool one = unscored.size() == 1;
  const std::string nothing =
      fmt::format("{} {}: no token of the {} split is scored", one ? "dataset" : "datasets",
                  fmt::join(unscored, ", "), split_name(split));
  if (any) {
    warnings.push_back(fmt::format("{}: {} rows change nothing", nothing, one ? "its" : "their"));
    return;
  }
  fail<ConfigError>(
      "{} ({}.bin has no 1 behind the first token of a conversation); expected conversations with "
      "answers to learn (viaduct data chat), or dataset.answer_only_loss=false, which scores every "
      "token",
      nothing, mask_prefix(unscored.front()));
}

}  // namespace

void check_conversation_lengths(const IndexedDataset& dataset, Split split, DocumentRange range,
                                const PackingSettings& packing, const ConversationLimits& limits) {
  if (packing.split) return;
  const int64_t row = packing.row_tokens, limit = std::min(row, limits.longest.value_or(row));
  const TooLong found = too_long(dataset, range, limit);
  if (found.count == 0) return;
  dataset.check_read();
  fail<ConfigError>(
      "dataset {}: {} of {} in its {} split {} longer than {}; the longest has {} tokens (sequence "
      "{}). Expected {}, or shorter conversations: viaduct data chat … --max-length {} --overlong "
      "truncate_end",
      dataset.prefix(), found.count, counted(range.size(), "conversation"), split_name(split),
      found.count == 1 ? "is" : "are",
      limit < row ? fmt::format("the {} tokens that one may have (model.seq_length, or positions "
                                "of the model)",
                                limit)
                  : fmt::format("a row of {} tokens", row),
      found.longest, found.sequence, advice(packing, limits, limit, found.longest), limit);
}

std::vector<std::string> check_conversations(const DatasetConfig& config,
                                             std::span<const Split> splits,
                                             const NamedTokenizer& tokenizer) {
  std::vector<std::string> warnings;
  if (!config.packing.conversations || config.mock || config.fast_cache_load ||
      config.sequence_length.is_auto())
    return warnings;
  for (const Split split : splits) {
    if (const auto choice = split_choice(config, split))
      check_split(config, split, *choice, tokenizer, warnings);
  }
  return warnings;
}

}  // namespace viaduct
