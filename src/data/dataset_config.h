#pragma once
// Settings of training data: the `dataset` section, under Megatron-Bridge's names.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "data/image_row_settings.h"
#include "data/packing_config.h"
#include "data/pair_settings.h"
#include "data/span_config.h"

namespace viaduct {

/// The order of training rows (`dataset.dataloader_type`).
enum class DataOrder {
  single,    // one pass in the order of the index
  cyclic,    // passes, each shuffled by its number
  batch,     // the same, and by the seed
  external,  // refused
};
constexpr auto choice_names(DataOrder) {
  return std::to_array<std::string_view>({"single", "cyclic", "batch", "external"});
}

struct DatasetConfig {
  /// Indexed data sets, one list for all splits: prefixes `[A, B]` (blended in proportion to their
  /// sizes), or weights and prefixes in turn `[0.3, A, 0.7, B]`. A prefix is a path without .bin or
  /// .idx.
  std::optional<std::vector<std::string>> blend;
  /// The same separately for train, validation and test: three lists, null for a split without
  /// data. Excludes `blend`.
  std::optional<std::vector<std::optional<std::vector<std::string>>>> blend_per_split;
  /// Weights by which `blend`'s files are cut into contiguous train, validation and test ranges.
  std::string split = "9999,8,2";
  /// Tokens a sample (S); S + 1 are read, as labels are the tokens shifted by one.
  Auto<int64_t> sequence_length;
  /// Seed of document and sample order, 0 to 2^32 - 1.
  int64_t random_seed = 1234;
  /// Positions restart at 0 after each end-of-document token.
  bool reset_position_ids = false;
  /// No attention across end-of-document tokens: rows come with document borders (the packed path).
  bool reset_attention_mask = false;
  /// The prediction made from an end-of-document token is not scored.
  bool eod_mask_loss = false;
  /// The end-of-document token; from the tokenizer where one is configured. Needed by the three
  /// fields above.
  std::optional<int64_t> eod_id;
  /// Random tokens instead of files, for benchmarks.
  bool mock = false;
  /// Samples beyond its share that each data set of a weighted blend must be able to give, as a
  /// fraction.
  double mid_level_dataset_surplus = 0.005;
  /// Folder where indices are kept between runs; null: PREFIX/cache/GPTDataset_indices; small ones
  /// are not kept.
  std::optional<std::string> path_to_cache;
  /// Order of training rows: `single`: one pass in index order; `cyclic` and `batch`: repeated
  /// passes, each newly shuffled.
  DataOrder dataloader_type = DataOrder::single;
  /// Fill in the middle (data/fill_in_middle.h): the share of segments that are rearranged, and
  /// among those the share with the suffix first.
  double fim_rate = 0, fim_spm_rate = 0.5;
  /// A token at which segments are cut into fragments, and the share of fragments rearranged.
  std::optional<std::string> fim_split_sample;
  double fim_fragment_rate = 0.5;
  /// Segments whose text begins with it are not changed.
  std::optional<std::string> fim_no_prefix;
  std::string fim_prefix_token = "<fim_prefix>", fim_middle_token = "<fim_middle>",
              fim_suffix_token = "<fim_suffix>", fim_pad_token = "<fim_pad>",
              fim_eod_token = "<|endoftext|>";
  /// Cached indices must exist and are trusted; nothing that grows with the data is read at start.
  bool fast_cache_load = false;
  /// Cached indices are mapped when the first row is read.
  bool defer_npy_index_mmap = false;
  /// Data sets of a blend that are opened and indexed at a time.
  int64_t num_dataset_builder_threads = 1;
  /// Rows of conversations.
  PackingConfig packing;
  /// Rows of texts, for a model with an encoder.
  SpanConfig spans;
  /// Rows are pairs, for a model with an encoder; no field of the configuration.
  std::optional<PairSettings> pairs;
  /// Rows may have images, for a model that reads them; no field of the configuration.
  std::optional<ImageRowSettings> images;
};

/// Section `tokenizer`.
struct TokenizerConfig {
  /// Folder with tokenizer files; null: the one of `checkpoint.pretrained_checkpoint`, if any.
  std::optional<std::string> tokenizer_model;
  /// Without files: tokens 0 to vocab_size − 1, and vocab_size closes documents (Megatron's null
  /// tokenizer). With files: the vocabulary size to assume, at least the actual one.
  std::optional<int64_t> vocab_size;
  /// Additional ids after the vocabulary that no text contains.
  int64_t vocab_extra_ids = 0;
};

FieldGroup dataset_fields(DatasetConfig& config);
FieldGroup fill_in_middle_fields(DatasetConfig& config);
FieldGroup tokenizer_fields(TokenizerConfig& config);

/// A parsed blend: data sets and, if given, one weight for each.
struct Blend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights;
};

/// Reads the list forms of `DatasetConfig::blend`: an even number of entries whose every second
/// one, from the first, is a number is (weight, prefix) pairs; anything else is prefixes. Mixed
/// lists and weights that are not >= 0 with a positive sum are ConfigErrors.
Blend parse_blend(const std::vector<std::string>& entries);

/// Why rows consist of documents that attention does not cross, as "dataset.FIELD = VALUE"; "" if
/// each is one document.
std::string cause_of_documents(const DatasetConfig& config);

/// All errors in the settings (no file is opened), one message each.
std::vector<std::string> dataset_config_problems(const DatasetConfig& config);

}  // namespace viaduct
