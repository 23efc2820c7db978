#include "train/measured_on.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "data/dataset_fingerprint.h"
#include "data/score_mask.h"
#include "data/split.h"
#include "data/split_choice.h"

namespace viaduct {
namespace {

std::string digits(const std::string& text) {
  return fmt::format("{:016x}", hash64(text));
}

/// Without the name: a file may be moved.
std::string content(const IndexedDataset& file) {
  const DatasetFingerprint print = fingerprint(file);
  return fmt::format("content {} {} {} {:016x} {:016x}\n", print.documents, print.sequences,
                     print.tokens, print.index_hash, print.sample_hash);
}

/// How rows are made of any data.
std::string rows_of(const DatasetConfig& config) {
  std::string text =
      fmt::format("rows of {} seed {} borders {} {} {} {}\n", config.sequence_length.value_or(0),
                  config.random_seed, config.reset_position_ids, config.reset_attention_mask,
                  config.eod_mask_loss, config.eod_id.value_or(-1));
  if (config.fim_rate > 0) {
    text += fmt::format("fim {} {} {} {} {}\n", config.fim_rate, config.fim_spm_rate,
                        config.fim_fragment_rate, config.fim_split_sample.value_or(""),
                        config.fim_no_prefix.value_or(""));
  }
  return text;
}

/// How rows are made of conversations.
std::string packing_of(const PackingConfig& packing) {
  std::string text = fmt::format("answers {} longest {}\n", packing.answer_only_loss,
                                 packing.limits.longest.value_or(0));
  if (packing.packed_sequence_size) {
    text += fmt::format("packed {} {} {} {}\n", *packing.packed_sequence_size,
                        choice_name(packing.packing_algorithm), packing.packing_split,
                        packing.pad_seq_to_mult);
  }
  return text;
}

}  // namespace

std::string validation_measured_on(DatasetBuilder& builder,
                                   const std::vector<EvaluationSet>& sets) {
  if (sets.empty()) return "";
  const DatasetConfig& config = builder.config();
  std::string text = rows_of(config);
  for (const EvaluationSet& set : sets) text += fmt::format("set of {}\n", set.rows);
  if (config.mock) return digits(text + "mock");
  const auto choice = split_choice(config, Split::valid);
  if (!choice) return digits(text);
  const Blend& blend = choice->blend;
  text += fmt::format("part {} {}\n", choice->fractions[0], choice->fractions[1]);
  if (blend.weights) text += fmt::format("weights {}\n", fmt::join(*blend.weights, " "));
  bool masked = false;
  for (const std::string& prefix : blend.prefixes) {
    text += content(*builder.open(prefix));
    if (!has_mask(prefix)) continue;
    masked = true;
    text += content(*builder.open(mask_prefix(prefix)));
  }
  if (masked) text += packing_of(config.packing);
  return digits(text);
}

std::string tasks_measured_on(const TaskFile& tasks, int64_t positions) {
  std::string text = fmt::format("positions {}\n", positions);
  // Each text after its length, so that no two lists of them are one text.
  const auto add = [&](const std::string& part) {
    text += fmt::format("{}:{}\n", part.size(), part);
  };
  for (const TaskLine& line : tasks.lines) {
    add(line.task);
    add(line.context);
    text += fmt::format("{} choices, {}\n", line.choices.size(), line.answer);
    for (const std::string& choice : line.choices) add(choice);
    add(line.continuation);
  }
  return digits(text);
}

}  // namespace viaduct
