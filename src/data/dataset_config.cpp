#include "data/dataset_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/split.h"

namespace viaduct {
namespace {
constexpr std::string_view kOrder =
    "rows come in a different order from here on: some a second time, some not at all";

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class F>
void collect(std::vector<std::string>& problems, F&& check) {
  try {
    check();
  } catch (const ConfigError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
}

}  // namespace

Blend parse_blend(const std::vector<std::string>& entries) {
  VIADUCT_CHECK(ConfigError, !entries.empty(),
                "dataset.blend: expected prefixes of data sets, found none");
  std::vector<double> weights;
  if (entries.size() % 2 == 0) {
    for (size_t i = 0; i < entries.size(); i += 2) {
      if (const auto weight = as_number(entries[i])) weights.push_back(*weight);
    }
  }
  if (weights.empty()) return {entries, std::nullopt};
  Blend blend;
  VIADUCT_CHECK(ConfigError, weights.size() == entries.size() / 2,
                "dataset.blend: {} of {} data sets of [{}] have a weight, expected all or none",
                weights.size(), entries.size() / 2, fmt::join(entries, ", "));
  for (size_t i = 1; i < entries.size(); i += 2) blend.prefixes.push_back(entries[i]);
  for (size_t i = 0; i < weights.size(); ++i) {
    VIADUCT_CHECK(ConfigError, std::isfinite(weights[i]) && weights[i] > 0,
                  "dataset.blend: the weight of {} is {}, expected > 0", blend.prefixes[i],
                  weights[i]);
  }
  blend.weights = std::move(weights);
  return blend;
}

namespace {

/// Whether a blend has weights.
bool has_weights(const DatasetConfig& config) {
  const auto weighted = [](const auto& blend) {
    return blend && parse_blend(*blend).weights.has_value();
  };
  if (weighted(config.blend)) return true;
  return config.blend_per_split && std::ranges::any_of(*config.blend_per_split, weighted);
}

}  // namespace

FieldGroup dataset_fields(DatasetConfig& config) {
  FieldGroup group("dataset", "What is trained on: Megatron indexed data sets, or mock data.");
  group.of_values();
  // Conversations say how long the documents of a row are, in virtual time too.
  const auto conversations = [&config] { return config.packing.conversations; };
  const auto no_indices = [&config] { return config.mock; };
  constexpr const char* kNoIndices = "dataset.mock = true: there are no indices";
  group
      .field(
          "blend", config.blend,
          "Prefixes of .bin/.idx files, [A, B], or weights and prefixes in turn, [0.3, A, 0.7, B].")
      .alias("data_path")
      .constraint("excludes dataset.blend_per_split and dataset.mock")
      .on_resume(resume::said(resume::other_rows))
      .of_values(conversations);
  group
      .field("blend_per_split", config.blend_per_split,
             "Three blends, for training, validation and test; null for a split without data.")
      .constraint("excludes dataset.blend and dataset.mock")
      .on_resume(resume::said(resume::other_rows))
      .of_values(conversations);
  group
      .field(
          "split", config.split,
          "Weights that cut each file of dataset.blend into training, validation and test ranges.")
      .on_resume(resume::said("rows move between training, validation and test"))
      .of_values(conversations)
      .idle([&config] { return config.mock; }, "dataset.mock = true")
      .idle([&config] { return !config.blend; }, "dataset.blend is null");
  group
      .field("sequence_length", config.sequence_length,
             "Tokens a sample. auto: the model's sequence length.")
      .alias("seq_length")
      .range(1, std::numeric_limits<int32_t>::max() - 1)
      .in("tokens")
      .on_resume(resume::free)
      .in_virtual_time();
  group.field("random_seed", config.random_seed, "Seed of document and sample order.")
      .range(0, std::numeric_limits<uint32_t>::max())
      .on_resume(resume::said(kOrder));
  group
      .field("reset_position_ids", config.reset_position_ids,
             "Positions restart after each end-of-document token.")
      .on_resume(resume::said(resume::other_targets));
  group
      .field("reset_attention_mask", config.reset_attention_mask,
             "No attention across end-of-document tokens (packed rows).")
      .on_resume(resume::said(resume::other_targets));
  group
      .field("eod_mask_loss", config.eod_mask_loss,
             "Predictions made from an end-of-document token are not scored.")
      .on_resume(resume::said(resume::other_targets));
  group
      .field("eod_id", config.eod_id,
             "The end-of-document token. null: the one that `viaduct data tokenize` appended (by "
             "PREFIX.tokens.json), else the tokenizer's end-of-text token.")
      .range(0, std::numeric_limits<int32_t>::max())
      .on_resume(resume::said(resume::other_targets))
      .idle(
          [&config] {
            return !config.reset_position_ids && !config.reset_attention_mask &&
                   !config.eod_mask_loss;
          },
          "no setting of section dataset looks for ends of documents");
  group.field("mock", config.mock, "Random tokens instead of files, for benchmarks.")
      .constraint("excludes dataset.blend and dataset.blend_per_split")
      .on_resume(resume::said(resume::other_rows));
  group
      .field("mid_level_dataset_surplus", config.mid_level_dataset_surplus,
             "Surplus that each data set of a weighted blend must have beyond its share.")
      .range(0, 1)
      .in("fraction")
      .on_resume(resume::said(kOrder))
      .idle([&config] { return config.mock || !has_weights(config); }, "no blend has weights");
  group
      .field("path_to_cache", config.path_to_cache,
             "Folder where indices are kept between runs, under Megatron's names; null: "
             "PREFIX/cache/GPTDataset_indices for indices of 64 MiB and more; smaller ones are not "
             "kept.")
      .on_resume(resume::free)
      .idle(no_indices, kNoIndices);
  group
      .field(
          "dataloader_type", config.dataloader_type,
          "Order of training rows: `single`, one pass in index order; `cyclic` and `batch`, "
          "repeated passes, each shuffled by its number (`batch`: and by random_seed), the "
          "part of a pass that fills no global batch (of the last size of train.rampup_batch_size) "
          "left out. `external`, a loader passed in by a Python program, is an error here.")
      .on_resume(resume::said(kOrder));
  group
      .field("fast_cache_load", config.fast_cache_load,
             "Cached indices must exist and are trusted; nothing that grows with the data is read "
             "at start.")
      .constraint("needs dataset.path_to_cache")
      .on_resume(resume::free)
      .idle(no_indices, kNoIndices);
  group
      .field("defer_npy_index_mmap", config.defer_npy_index_mmap,
             "Cached indices are mapped when the first row is read.")
      .constraint("needs dataset.path_to_cache")
      .on_resume(resume::free)
      .idle(no_indices, kNoIndices);
  group
      .field("num_dataset_builder_threads", config.num_dataset_builder_threads,
             "Data sets of a blend that a rank opens and indexes at a time.")
      .range(1, 1024)
      .in("threads")
      .on_resume(resume::free)
      .idle(no_indices, kNoIndices);
  return group;
}

FieldGroup fill_in_middle_fields(DatasetConfig& config) {
  FieldGroup group("dataset", "");
  group.on_resume(resume::said(resume::other_targets)).of_values();
  const auto share = [&](const char* name, double& value, const char* doc) -> Field& {
    return group.field(name, value, doc).range(0, 1);
  };
  share(
      "fim_rate", config.fim_rate,
      "Share of segments (between end-of-document tokens) that become fill-in-the-middle examples: "
      "prefix, suffix, middle.")
      .constraint("above 0 needs a tokenizer with the tokens below, and excludes dataset.mock");
  group.idle([&config] { return reason_if(config.fim_rate == 0, "dataset.fim_rate = 0"); });
  share("fim_spm_rate", config.fim_spm_rate,
        "Share of these examples in which the suffix comes before the prefix.");
  group.field("fim_split_sample", config.fim_split_sample,
              "A token at which segments are cut into fragments, each rearranged separately.");
  share("fim_fragment_rate", config.fim_fragment_rate,
        "Share of fragments that are rearranged, with fim_split_sample.");
  group.field("fim_no_prefix", config.fim_no_prefix,
              "Segments that begin with this text are not changed.");
  group.field("fim_prefix_token", config.fim_prefix_token, "Token before a prefix.");
  group.field("fim_middle_token", config.fim_middle_token, "Token before a middle.");
  group.field("fim_suffix_token", config.fim_suffix_token, "Token before a suffix.");
  group.field("fim_pad_token", config.fim_pad_token, "Token that fills up a row.");
  group.field("fim_eod_token", config.fim_eod_token, "Token between segments.");
  return group;
}

FieldGroup tokenizer_fields(TokenizerConfig& config) {
  FieldGroup group("tokenizer", "Text to tokens and back.");
  group.on_resume(resume::free);
  group.field("tokenizer_model", config.tokenizer_model,
              "Folder with tokenizer files (a Hugging Face folder, or one with tokenizer.json, "
              "tokenizer.model, or vocab.json and merges.txt), or a GGUF file.");
  constexpr double kMostTokens = 1 << 26;
  group
      .field(
          "vocab_size", config.vocab_size,
          "Number of tokens before the end-of-document token, for data without tokenizer files "
          "(ids 0 to "
          "vocab_size - 1, and vocab_size ends documents: Megatron's null tokenizer); with files, "
          "the vocabulary size to assume.")
      .range(1, kMostTokens)
      .constraint("at least the size of the tokenizer's vocabulary");
  group
      .field("vocab_extra_ids", config.vocab_extra_ids,
             "Extra ids after the tokenizer's, for uses other than text (sentinels of "
             "dataset.masking_probability, the last id first); the model's vocabulary includes "
             "them.")
      .range(0, kMostTokens);
  return group;
}

std::string cause_of_documents(const DatasetConfig& config) {
  if (config.reset_attention_mask) return "dataset.reset_attention_mask = true";
  if (!config.packing.conversations) return "";
  const auto& size = config.packing.packed_sequence_size;
  return size ? fmt::format("dataset.packed_sequence_size = {}", *size)
              : "data sets of conversations";
}

std::vector<std::string> dataset_config_problems(const DatasetConfig& config) {
  std::vector<std::string> problems;
  if (config.sequence_length.is_auto()) {
    problems.push_back("dataset.sequence_length is not given");
  } else if (const int64_t length = config.sequence_length.value();
             length < 1 || length >= std::numeric_limits<int32_t>::max()) {
    problems.push_back(fmt::format("dataset.sequence_length is {}, expected 1 to {}", length,
                                   std::numeric_limits<int32_t>::max() - 1));
  }
  if (config.random_seed < 0 || config.random_seed > std::numeric_limits<uint32_t>::max()) {
    problems.push_back(
        fmt::format("dataset.random_seed is {}, expected 0 to 4294967295", config.random_seed));
  }
  if (!(config.mid_level_dataset_surplus >= 0) ||
      !std::isfinite(config.mid_level_dataset_surplus)) {
    problems.push_back("dataset.mid_level_dataset_surplus is not a number >= 0");
  }
  const auto needs_cache = [&](const char* name, bool value) {
    if (value && !config.path_to_cache)
      problems.push_back(fmt::format("dataset.{}: true needs dataset.path_to_cache", name));
  };
  needs_cache("fast_cache_load", config.fast_cache_load);
  needs_cache("defer_npy_index_mmap", config.defer_npy_index_mmap);
  const bool needs_eod =
      config.reset_position_ids || config.reset_attention_mask || config.eod_mask_loss;
  if (needs_eod && !config.eod_id) {
    problems.push_back(
        "dataset.reset_position_ids, dataset.reset_attention_mask and dataset.eod_mask_loss need "
        "the end-of-document "
        "token: give a tokenizer or dataset.eod_id");
  }
  if (config.fim_rate > 0 && config.mock)
    problems.push_back("dataset.fim_rate: above 0, but mock data (dataset.mock) have no text");
  if (config.dataloader_type == DataOrder::external) {
    problems.push_back(
        "dataset.dataloader_type: external is a loader that a Python program hands over, and no "
        "program stands above this one; make a data set of its rows (viaduct data tokenize, or "
        "Megatron's tools), name it in dataset.blend, and take single, cyclic or batch");
  }
  const int sources =
      int{config.mock} + int{config.blend.has_value()} + int{config.blend_per_split.has_value()};
  if (sources != 1) {
    problems.push_back(
        fmt::format("{} of dataset.blend, dataset.blend_per_split and dataset.mock=true are given, "
                    "expected one",
                    sources == 0 ? "none" : "several"));
  }
  if (config.blend_per_split && config.blend_per_split->size() != kSplitCount) {
    problems.push_back(
        fmt::format("dataset.blend_per_split has {} entries, expected 3: train, valid, test",
                    config.blend_per_split->size()));
  }
  if (config.blend) {
    collect(problems, [&] { parse_blend(*config.blend); });
    collect(problems, [&] { parse_split(config.split); });
  }
  if (config.blend_per_split) {
    for (const auto& blend : *config.blend_per_split) {
      if (!blend) continue;
      std::vector<std::string> found;
      collect(found, [&] { parse_blend(*blend); });
      for (const std::string& text : found)
        problems.push_back("dataset.blend_per_split" + text.substr(text.find(':')));
    }
  }
  return problems;
}

}  // namespace viaduct
