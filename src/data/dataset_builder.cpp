#include "data/dataset_builder.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/thread_pool.h"
#include "data/blend.h"
#include "data/blended_dataset.h"
#include "data/conversation_dataset.h"
#include "data/file_dataset.h"
#include "data/fill_in_middle.h"
#include "data/gpt_dataset.h"
#include "data/image_files.h"
#include "data/mock_dataset.h"
#include "data/mock_image_dataset.h"
#include "data/pair_dataset.h"
#include "data/span_dataset.h"

namespace viaduct {

DatasetBuilder::DatasetBuilder(DatasetConfig config, std::optional<int64_t> vocabulary_size,
                               const Tokenizer* tokenizer, ImageOpener images)
    : config_(std::move(config)),
      vocabulary_size_(vocabulary_size),
      images_(std::move(images)),
      settings_{config_.sequence_length.value_or(0), config_.reset_position_ids,
                config_.reset_attention_mask,        config_.eod_mask_loss,
                config_.eod_id.value_or(-1),         config_.images ? config_.images->token : -1} {
  std::vector<std::string> problems = dataset_config_problems(config_);
  if (config_.mock && !vocabulary_size_)
    problems.push_back("dataset.mock needs a model: its vocabulary bounds the tokens");
  if (config_.fim_rate > 0 && tokenizer == nullptr)
    problems.push_back("dataset.fim_rate: needs a tokenizer (tokenizer.tokenizer_model)");
  if (!problems.empty()) throw ConfigError(std::move(problems));
  if (config_.fim_rate == 0) return;
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    fill_in_middle_[static_cast<size_t>(split)] =
        std::make_shared<const FillInMiddle>(config_, *tokenizer, split_name(split));
  }
}

std::shared_ptr<const IndexedDataset> DatasetBuilder::open(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const IndexedDataset>& file = files_[prefix];
  const IndexCheck check = config_.fast_cache_load ? IndexCheck::on_use : IndexCheck::at_once;
  if (!file) file = std::make_shared<const IndexedDataset>(prefix, check);
  return file;
}

std::shared_ptr<const IndexedDataset> DatasetBuilder::opened(const std::string& prefix) const {
  const std::lock_guard lock(mutex_);
  const auto file = files_.find(prefix);
  return file == files_.end() ? nullptr : file->second;
}

std::shared_ptr<const SampleSource> DatasetBuilder::build(Split split,
                                                          std::optional<int64_t> num_samples) {
  if (config_.mock) {
    // Each split has its own random numbers; otherwise validation would measure the training rows.
    const uint64_t seed =
        static_cast<uint64_t>(config_.random_seed) + (static_cast<uint64_t>(split) << 32);
    const int64_t rows = num_samples.value_or(std::numeric_limits<int64_t>::max());
    if (config_.pairs)
      return std::make_shared<MockPairDataset>(rows, *vocabulary_size_, seed, settings_,
                                               *config_.pairs);
    if (config_.images)
      return std::make_shared<MockImageDataset>(rows, *vocabulary_size_, seed, settings_,
                                                *config_.images);
    return std::make_shared<MockDataset>(rows, *vocabulary_size_, seed, settings_);
  }
  const auto choice = split_choice(config_, split);
  if (!choice) return nullptr;
  // Megatron goes through a blend for one data set with a weight, unless it is one of the lists per
  // split.
  const Blend& blend = choice->blend;
  if (blend.prefixes.size() == 1 && (config_.blend_per_split || !blend.weights))
    return build_one(blend.prefixes[0], split, choice->fractions, num_samples);
  return build_blend(*choice, split, num_samples);
}

std::vector<std::shared_ptr<const SampleSource>> DatasetBuilder::build_each(
    Split split, std::optional<int64_t> num_samples) {
  const auto choice = split_choice(config_, split);
  if (!choice) return {};
  VIADUCT_CHECK(ConfigError, config_.blend_per_split && !choice->blend.weights,
                "the data sets of the {} split are read separately: give them in "
                "dataset.blend_per_split, without weights",
                split_name(split));
  return build_all(*choice, split,
                   std::vector<std::optional<int64_t>>(choice->blend.prefixes.size(), num_samples));
}

bool DatasetBuilder::has_data(Split split) {
  if (config_.mock) return split != Split::test;
  const auto choice = split_choice(config_, split);
  if (!choice) return false;
  for (const std::string& prefix : choice->blend.prefixes) {
    const auto file = open(prefix);
    const DocumentRange range = split_range(choice->fractions, file->sequence_count());
    int64_t tokens = 0;
    for (int64_t i = range.first; i < range.end && tokens < 2; ++i)
      tokens += file->sequence_length(i);
    if (tokens < 2) return false;
  }
  return true;
}

bool DatasetBuilder::same_order(const SampleSource& source, Split split,
                                int64_t num_samples) const {
  if (const auto* one = dynamic_cast<const FileDataset*>(&source))
    return one->same_order_for(num_samples);
  const auto* blended = dynamic_cast<const BlendedDataset*>(&source);
  const auto choice = split_choice(config_, split);
  // Each sample of a blend depends on the samples before it; without weights a blend has one epoch.
  if (blended == nullptr || !choice || !choice->blend.weights) return true;
  const std::vector<double> weights = normalize_weights(*choice->blend.weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t share = blend_share(weights[i], num_samples, config_.mid_level_dataset_surplus);
    if (!dynamic_cast<const FileDataset&>(*blended->sources()[i]).same_order_for(share))
      return false;
  }
  return true;
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_one(
    const std::string& prefix, Split split, const std::array<double, 2>& fractions,
    std::optional<int64_t> num_samples) {
  const auto file = open(prefix);
  const DocumentRange range = split_range(fractions, file->sequence_count());
  if (num_samples == 0 && range.size() == 0) return nullptr;
  check_mask_files(*file);
  check_image_files(*file);
  if (config_.pairs) return build_pairs(file, split, range, num_samples);
  if (has_mask(prefix)) return build_conversations(file, split, range, num_samples);
  return std::make_shared<GptDataset>(stream_request(file, split, range, num_samples), storage(),
                                      settings_, vocabulary_size_,
                                      fill_in_middle_[static_cast<size_t>(split)]);
}

GptIndexRequest DatasetBuilder::stream_request(std::shared_ptr<const IndexedDataset> file,
                                               Split split, DocumentRange range,
                                               std::optional<int64_t> num_samples) const {
  return {std::move(file),
          split,
          range,
          num_samples,
          settings_.sequence_length,
          static_cast<uint32_t>(config_.random_seed),
          config_.blend_per_split ? std::nullopt : std::optional(config_.split)};
}

std::shared_ptr<const RowImages> DatasetBuilder::open_images(const IndexedDataset& file) const {
  if (!has_images(file.prefix())) return nullptr;
  VIADUCT_CHECK(ConfigError, images_ != nullptr,
                "data set {} has pictures ({}.idx), and the model reads none; expected a model of "
                "LLaVA or Gemma 3 (model.read_images), or a data set of texts alone",
                file.prefix(), images_prefix(file.prefix()));
  return images_(file.prefix(), file.sequence_count());
}

IndexStorage DatasetBuilder::storage() const {
  return {config_.path_to_cache, config_.fast_cache_load, config_.defer_npy_index_mmap};
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_pairs(
    std::shared_ptr<const IndexedDataset> file, Split split, DocumentRange range,
    std::optional<int64_t> num_samples) {
  if (!has_mask(file->prefix())) {
    return std::make_shared<SpanDataset>(stream_request(std::move(file), split, range, num_samples),
                                         storage(), settings_.sequence_length, *config_.pairs,
                                         config_.spans, vocabulary_size_);
  }
  open_images(*file);  // an encoder of texts reads none
  auto mask = open(mask_prefix(file->prefix()));
  return std::make_shared<PairDataset>(
      std::move(file), std::move(mask), split, range, num_samples, settings_.sequence_length,
      *config_.pairs, static_cast<uint32_t>(config_.random_seed), storage(), vocabulary_size_);
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_conversations(
    std::shared_ptr<const IndexedDataset> file, Split split, DocumentRange range,
    std::optional<int64_t> num_samples) {
  VIADUCT_CHECK(ConfigError, config_.fim_rate == 0,
                "dataset.fim_rate: {}, but dataset {} has a mask ({}.idx): its conversations are "
                "not rearranged; expected 0",
                config_.fim_rate, file->prefix(), mask_prefix(file->prefix()));
  const PackingConfig& packing = config_.packing;
  ConversationRowSettings settings;
  settings.packing = packing_settings(packing, settings_.sequence_length);
  settings.answer_only_loss = packing.answer_only_loss;
  settings.pad_cu_seqlens = packing.pad_cu_seqlens && packing.packed_sequence_size.has_value();
  settings.limits = packing.limits;
  settings.random_seed = static_cast<uint32_t>(config_.random_seed);
  settings.blank_token = config_.images ? config_.images->other_token() : 0;
  settings.images = open_images(*file);
  settings.image_token = settings_.image_token;
  VIADUCT_CHECK(ConfigError, settings.images == nullptr || !settings.packing.split,
                "dataset.packing_split: true, but data set {} has pictures: its conversations are "
                "not cut; expected false",
                file->prefix());
  auto mask = open(mask_prefix(file->prefix()));
  return std::make_shared<ConversationDataset>(std::move(file), std::move(mask), split, range,
                                               num_samples, settings, storage(), vocabulary_size_);
}

std::vector<std::shared_ptr<const SampleSource>> DatasetBuilder::build_all(
    const SplitChoice& choice, Split split,
    const std::vector<std::optional<int64_t>>& num_samples) {
  const size_t count = num_samples.size();
  std::vector<std::shared_ptr<const SampleSource>> sources(count);
  std::vector<std::exception_ptr> errors(count);
  const auto threads = static_cast<int64_t>(count);
  ThreadPool pool(static_cast<int>(std::min(config_.num_dataset_builder_threads, threads)));
  pool.run(threads, [&](int64_t task, int) {
    const auto i = static_cast<size_t>(task);
    try {
      sources[i] = build_one(choice.blend.prefixes[i], split, choice.fractions, num_samples[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return sources;
}

std::shared_ptr<const SampleSource> DatasetBuilder::build_blend(
    const SplitChoice& choice, Split split, std::optional<int64_t> num_samples) {
  const Blend& blend = choice.blend;
  if (num_samples == 0) return nullptr;
  VIADUCT_CHECK(ConfigError, num_samples || !blend.weights,
                "a blend with weights needs the number of {} samples to draw; none is given",
                split_name(split));
  const std::vector<double> weights =
      blend.weights ? normalize_weights(*blend.weights) : std::vector<double>{};
  std::vector<std::optional<int64_t>> wanted(blend.prefixes.size());
  int64_t size = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    size += blend_share(weights[i], *num_samples, 0.0);
    wanted[i] = blend_share(weights[i], *num_samples, config_.mid_level_dataset_surplus);
  }
  auto sources = build_all(choice, split, wanted);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < sources.size(); ++i) {
    sizes.push_back(sources[i]->size());
    VIADUCT_CHECK(ConfigError, sizes.back() > 0,
                  "dataset {}: its {} split has too few tokens for one sample of {} + 1, so it "
                  "cannot be part of a blend",
                  blend.prefixes[i], split_name(split), settings_.sequence_length);
  }
  const auto total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (!blend.weights) size = num_samples ? std::min(*num_samples, total) : total;
  // Without weights, the sizes are the weights; without a number of samples, all samples are taken.
  const std::vector<double> shares =
      blend.weights ? weights : std::vector<double>(sizes.begin(), sizes.end());
  const auto make = [=, names = blend.prefixes](IndexSink& sink) {
    const BlendIndex index =
        num_samples ? build_blend_index(shares, size) : build_exhaustive_blend_index(sizes);
    check_blend(index, sources, names);
    write_blend_index(index, sink);
  };
  const auto files =
      blend_files(sources, split, num_samples ? shares : std::vector<double>{}, size);
  const auto open = [=, storage = storage()] {
    return open_index(files, storage, "a blend", make);
  };
  const bool later = config_.defer_npy_index_mmap;
  if (files && later && !config_.fast_cache_load) ensure_built(*files, make);
  return std::make_shared<BlendedDataset>(sources, size, open, later);
}

std::optional<IndexCacheEntry> DatasetBuilder::blend_files(const BlendedDataset::Sources& sources,
                                                           Split split,
                                                           const std::vector<double>& shares,
                                                           int64_t size) const {
  if (!config_.path_to_cache) return std::nullopt;
  using nlohmann::ordered_json;
  auto datasets = ordered_json::array();
  auto sizes = ordered_json::array();
  for (const auto& source : sources) {
    datasets.push_back(parse_json<ordered_json>(
        dynamic_cast<const FileDataset&>(*source).description(), "a data set's description"));
    sizes.push_back(source->size());
  }
  const bool all = shares.empty();
  const ordered_json description{
      {"class", "BlendedDataset"},
      {"datasets", std::move(datasets)},
      {"split", split_name(split)},
      {"weights", all ? std::move(sizes) : ordered_json(normalize_weights(shares))},
      {"size", all ? ordered_json() : ordered_json(size)}};
  return IndexCacheEntry{*config_.path_to_cache,
                         index_description(description),
                         fmt::format("BlendedDataset-{}", split_name(split)),
                         {"dataset_index", "dataset_sample_index"},
                         blend_shapes(size),
                         0};
}

}  // namespace viaduct
