#include "run/packing_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/nearest.h"
#include "config/nearest_valid.h"
#include "data/dataset_fingerprint.h"
#include "data/score_mask.h"

namespace viaduct {
namespace {

constexpr std::string_view kSize = "dataset.packed_sequence_size";

/// Entries of Megatron-Bridge's specs by what becomes of them.
constexpr std::array<std::string_view, 4> kFields{"packed_sequence_size", "packing_algorithm",
                                                  "pad_cu_seqlens", "pad_seq_to_mult"};
constexpr std::array<std::string_view, 3> kPaths{"packed_train_data_path", "packed_val_data_path",
                                                 "packed_metadata_path"};
constexpr std::array<std::string_view, 2> kOfPacker{"tokenizer_model_name",
                                                    "num_tokenizer_workers"};

bool is_in(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// One map of specs.
class Specs {
 public:
  Specs(std::string name, RunConfig& config, ConfigOutcome& outcome, Problems& problems)
      : name_(std::move(name)), config_(config), outcome_(outcome), problems_(problems) {}

  void read(const Value& specs) {
    for (const auto& [key, value] : specs.entries) read_entry(key, value);
    if (!set_.empty())
      outcome_.notes.push_back(fmt::format("{} sets {}", name_, fmt::join(set_, ", ")));
    if (!unused_.empty()) {
      outcome_.notes.push_back(
          fmt::format("{}: {} {} no effect here: rows are packed when the run starts, from tokens",
                      name_, fmt::join(unused_, ", "), unused_.size() == 1 ? "has" : "have"));
    }
  }

 private:
  void read_entry(const std::string& key, const Value& value) {
    const bool nothing = value.is_null() || value.is_plain("None");
    if (is_in(kPaths, key)) {
      if (nothing) return;
      problems_.add(
          "{}.{}: packed files are not read: they are Parquet, for which there is no library, or "
          ".npy files of pickled objects, which run code when they are opened. Make a data set of "
          "the conversations and name it in dataset.blend: viaduct data chat --input FILE "
          "--tokenizer FOLDER --output PREFIX; rows are packed when the run starts",
          name_, key);
    } else if (is_in(kOfPacker, key)) {
      if (!nothing) unused_.push_back(key);
    } else if (is_in(kFields, key)) {
      if (!nothing) set(key, value);
    } else {
      std::vector<std::string> known(kFields.begin(), kFields.end());
      known.insert(known.end(), kPaths.begin(), kPaths.end());
      known.insert(known.end(), kOfPacker.begin(), kOfPacker.end());
      const auto near = nearest_name(key, known);
      problems_.add("{}: no entry '{}'; expected {}", name_, key.substr(0, 80),
                    near ? *near : fmt::format("{}", fmt::join(kFields, ", ")));
    }
  }

  void set(const std::string& key, const Value& value) {
    const std::string field_name = "dataset." + key;
    PackingConfig& packing = config_.dataset.packing;
    // Megatron-Bridge's -1 is no size.
    int64_t number = 0;
    if (key == "packed_sequence_size" && read_value(value, number) && number == -1) return;
    FieldGroup group = packing_fields(packing);
    const auto field = std::ranges::find(group.fields(), key, &Field::name);
    if (const auto given = outcome_.given.find(field_name); given != outcome_.given.end()) {
      if (!same_value(given->second, value)) {
        problems_.add("{}.{}: {}, and {} = {} is given too: give one of them", name_, key,
                      to_flow_yaml(value), field_name, to_flow_yaml(given->second));
      }
      return;
    }
    const std::string problem = field->value_problem(value);
    if (!problem.empty() || !field->assign(value)) {
      problems_.add("{}.{}: {}", name_, key,
                    problem.empty() ? fmt::format("expected {}, found {}", field->type,
                                                  to_flow_yaml(value).substr(0, 80))
                                    : problem);
      return;
    }
    set_.push_back(fmt::format("{}={}", field_name, to_flow_yaml(value)));
    std::string& given_by = packing.limits.length_given_by;
    if (field_name == kSize && given_by.empty()) given_by = fmt::format("{}.{}=", name_, key);
  }

  std::string name_;
  RunConfig& config_;
  ConfigOutcome& outcome_;
  Problems& problems_;
  std::vector<std::string> set_, unused_;
};

void take_specs(RunConfig& config, ConfigOutcome& outcome, Problems& problems) {
  PackingConfig& packing = config.dataset.packing;
  const bool off = packing.enable_offline_packing == false;
  const auto take = [&](const char* name, const Value& specs) {
    if (specs.is_null()) return;
    if (off) {
      outcome.notes.push_back(fmt::format(
          "dataset.{} has no effect here: dataset.enable_offline_packing = false", name));
      return;
    }
    Specs(fmt::format("dataset.{}", name), config, outcome, problems).read(specs);
  };
  take("offline_packing_specs", packing.offline_packing_specs);
  take("packed_sequence_specs", packing.packed_sequence_specs);
  if (packing.enable_offline_packing == true && !packing.packed_sequence_size) {
    problems.add(
        "dataset.enable_offline_packing: true needs the size of rows: "
        "dataset.offline_packing_specs.packed_sequence_size, or {}",
        kSize);
  }
  if (off && packing.packed_sequence_size) {
    problems.add(
        "dataset.enable_offline_packing: false, but {} = {} packs rows; expected one of them",
        kSize, *packing.packed_sequence_size);
  }
}

/// What messages say has to be changed for longer rows.
void note_given_lengths(RunConfig& config, const ConfigOutcome& outcome) {
  ConversationLimits& limits = config.dataset.packing.limits;
  limits.also_given.clear();
  for (const auto& [name, length] :
       {std::pair("dataset.sequence_length", &config.dataset.sequence_length),
        std::pair("model.seq_length", &config.model.seq_length)}) {
    if (outcome.is_given(name) && !length->is_auto())
      limits.also_given.emplace_back(name, length->value());
  }
  if (config.dataset.packing.packed_sequence_size || !limits.length_given_by.empty()) return;
  const bool of_data = outcome.is_given("dataset.sequence_length");
  limits.length_given_by = of_data ? "dataset.sequence_length=" : "model.seq_length=";
}

/// Rows have the size of packs, whatever model.seq_length is.
void take_row_length(RunConfig& config, ConfigOutcome& outcome) {
  PackingConfig& packing = config.dataset.packing;
  if (!packing.packed_sequence_size) return;
  const int64_t size = *packing.packed_sequence_size;
  for (const auto& [name, length] :
       {std::pair("model.seq_length", &config.model.seq_length),
        std::pair("dataset.sequence_length", &config.dataset.sequence_length)}) {
    if (!length->is_auto() && length->value() != size) {
      const int64_t given = length->value();
      if (given < size)
        packing.limits.longest = std::min(packing.limits.longest.value_or(size), given);
      outcome.notes.push_back(
          given < size ? fmt::format("{} = {}: rows have that many tokens, and {} = {} is the most "
                                     "that a conversation may have",
                                     kSize, size, name, given)
                       : fmt::format("{} = {}: rows have that many tokens, not {} = {}", kSize,
                                     size, name, given));
    }
    *length = size;
  }
}

void note_masks(const RunConfig& config, ConfigOutcome& outcome, const MaskedDatasets& found) {
  const PackingConfig& packing = config.dataset.packing;
  if (found.with.empty() && found.without.empty()) return;
  if (!packing.answer_only_loss && !found.with.empty()) {
    outcome.notes.push_back(fmt::format(
        "dataset.answer_only_loss = false: the mask of {} is not used, and every token of a "
        "conversation is scored",
        fmt::join(found.with, ", ")));
  }
  // The configuration that a run writes has every field, and asks for none of them.
  const bool asked = outcome.is_given("dataset.answer_only_loss") &&
                     !outcome.is_given("dataset.enable_offline_packing");
  if (packing.answer_only_loss && asked && !found.without.empty()) {
    outcome.notes.push_back(fmt::format(
        "dataset.answer_only_loss = true has no effect on {}: there is no mask (PREFIX.mask.idx, "
        "by viaduct data chat), and every token is scored",
        fmt::join(found.without, ", ")));
  }
  if (packing.packed_sequence_size && !found.with.empty() && !found.without.empty()) {
    outcome.notes.push_back(fmt::format("{}: {} {} no mask and is not packed: its rows are full",
                                        kSize, fmt::join(found.without, ", "),
                                        found.without.size() == 1 ? "has" : "have"));
  }
}

bool can_read_blends(const DatasetConfig& data) {
  try {
    return !data.mock && (data.blend || data.blend_per_split) && !dataset_prefixes(data).empty();
  } catch (const std::exception&) {
    return false;  // reported where blends are checked
  }
}

}  // namespace

void apply_packing(RunConfig& config, ConfigOutcome& outcome, Problems& problems) {
  PackingConfig& packing = config.dataset.packing;
  take_specs(config, outcome, problems);
  note_given_lengths(config, outcome);
  take_row_length(config, outcome);
  packing.conversations = packing.packed_sequence_size.has_value() && !config.dataset.mock;
  if (!can_read_blends(config.dataset)) return;
  const MaskedDatasets found = masked_datasets(config.dataset);
  packing.conversations = !found.with.empty();
  packing.plain = !found.without.empty();
  note_masks(config, outcome, found);
  if (packing.packed_sequence_size && !found.with.empty() && config.train.micro_batch_rows() > 1 &&
      !config.train.skip_train) {
    outcome.notes.push_back(
        fmt::format("train.micro_batch_size = {} with packed rows: any is allowed here; "
                    "Megatron-Bridge demands "
                    "1 of the same configuration",
                    config.train.micro_batch_rows()));
  }
}

int64_t layout_multiple(const RunConfig& config) {
  const int64_t cp = config.parallel.context_parallel_size,
                tp = config.parallel.tensor_model_parallel_size;
  const bool cut = config.parallel.sequence_parallel.value_or(false);
  return std::lcm(cp > 1 ? 2 * cp : 1, cut ? cp * tp : 1);
}

void validate_packing(const RunConfig& config, Problems& problems) {
  const PackingConfig& packing = config.dataset.packing;
  if (!packing.packed_sequence_size) return;  // the other fields have no effect
  const int64_t multiple = packing.pad_seq_to_mult, needed = layout_multiple(config);
  if (multiple > 1 && multiple % needed != 0) {
    problems.add(
        "dataset.pad_seq_to_mult: {} is not a multiple of {}, the least common multiple of 2 · cp "
        "and, with sequence parallel, cp · tp (cp = {}, tp = {}); nearest: {}, or 1 to pad when "
        "batches are cut",
        multiple, needed, config.parallel.context_parallel_size,
        config.parallel.tensor_model_parallel_size, nearest_multiple(multiple, needed));
  }
  const auto& length = config.model.seq_length;
  if (multiple > 1 && !length.is_auto() && length.value() % multiple != 0) {
    problems.add(
        "dataset.pad_seq_to_mult: {} does not divide the {} tokens of a row; nearest rows: {}",
        multiple, length.value(), nearest_multiple(length.value(), multiple));
  }
  if (packing.packing_split && packing.limits.longest) {
    problems.add(
        "dataset.packing_split: true cuts conversations at the end of a row, but a part may have "
        "{} "
        "tokens at most (model.seq_length, or positions of the model); expected {} of at most {}",
        *packing.limits.longest, kSize, *packing.limits.longest);
  }
  if (packing.pad_cu_seqlens && config.context_parallel.hybrid_context_parallel) {
    problems.add(
        "dataset.pad_cu_seqlens: true pads the number of documents of a row, but "
        "model.hybrid_context_parallel = true gives each rank other documents; expected false");
  }
}

}  // namespace viaduct
