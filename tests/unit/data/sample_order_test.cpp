// The order of samples compared with that of Megatron-LM's dataset code (tests/data/sample_index).

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "data/blended_dataset.h"
#include "data/dataset_builder.h"
#include "data/gpt_dataset.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

json reference(const std::string& name) {
  return json::parse(read_file(test::test_data("sample_index/" + name + ".json")));
}

std::vector<std::string> blend_entries(const json& prefixes, const json& weights) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    if (!weights.is_null()) entries.push_back(weights[i].dump());
    entries.push_back(test::test_data("sample_index/" + prefixes[i].get<std::string>()).string());
  }
  return entries;
}

DatasetConfig settings_of(const json& item) {
  DatasetConfig config;
  if (item["blend_per_split"].is_null()) {
    config.blend = blend_entries(item["blend"], item["weights"]);
    config.split = item["split"];
  } else {
    config.blend_per_split.emplace();
    for (const json& blend : item["blend_per_split"]) {
      config.blend_per_split->emplace_back();
      if (!blend.is_null()) config.blend_per_split->back() = blend_entries(blend[0], blend[1]);
    }
  }
  config.sequence_length = item["sequence_length"].get<int64_t>();
  config.random_seed = item["random_seed"];
  config.reset_position_ids = item["reset_position_ids"];
  config.reset_attention_mask = item["reset_attention_mask"];
  config.eod_mask_loss = item["eod_mask_loss"];
  config.eod_id = item["eod"].get<int64_t>();
  return config;
}

void expect_dataset(const SampleSource& source, const json& expected) {
  const auto* dataset = dynamic_cast<const GptDataset*>(&source);
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->documents().first, expected["documents"][0]);
  EXPECT_EQ(dataset->documents().end, expected["documents"][1]);
  const json samples = dataset->num_samples() ? json(*dataset->num_samples()) : json();
  EXPECT_EQ(samples, expected["num_samples"]);
  const GptIndex& index = dataset->index();
  ASSERT_EQ(index.documents(), static_cast<int64_t>(expected["document_index"].size()));
  for (int64_t i = 0; i < index.documents(); ++i) {
    EXPECT_EQ(index.document(i), expected["document_index"][static_cast<size_t>(i)]);
  }
  ASSERT_EQ(index.samples(), static_cast<int64_t>(expected["shuffle_index"].size()));
  ASSERT_EQ(index.sample_index().shape().rows,
            static_cast<int64_t>(expected["sample_index"].size()));
  for (int64_t i = 0; i <= index.samples(); ++i) {
    const json& start = expected["sample_index"][static_cast<size_t>(i)];
    EXPECT_EQ(index.start(i).position, start[0]) << "sample " << i;
    EXPECT_EQ(index.start(i).offset, start[1]) << "sample " << i;
  }
  for (int64_t i = 0; i < index.samples(); ++i) {
    EXPECT_EQ(index.shuffled(i), expected["shuffle_index"][static_cast<size_t>(i)])
        << "sample " << i;
  }
}

void expect_split(const SampleSource& source, const json& expected) {
  EXPECT_EQ(source.size(), expected["length"]);
  if (expected.contains("dataset_index")) {
    const auto* blend = dynamic_cast<const BlendedDataset*>(&source);
    ASSERT_NE(blend, nullptr);
    for (int64_t i = 0; i < blend->size(); ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(blend->dataset_index()[i], expected["dataset_index"][at]);
      EXPECT_EQ(blend->dataset_sample_index()[i], expected["dataset_sample_index"][at]);
    }
    ASSERT_EQ(blend->sources().size(), expected["datasets"].size());
    for (size_t i = 0; i < blend->sources().size(); ++i)
      expect_dataset(*blend->sources()[i], expected["datasets"][i]);
  } else {
    expect_dataset(source, expected["datasets"][0]);
  }
  for (const json& sample : expected["samples"]) {
    const Sample row = source.get(sample["index"].get<int64_t>());
    EXPECT_EQ(row.tokens, sample["tokens"].get<std::vector<int32_t>>());
    EXPECT_EQ(row.labels, sample["labels"].get<std::vector<int32_t>>());
    EXPECT_EQ(row.loss_mask, sample["loss_mask"].get<std::vector<float>>());
    EXPECT_EQ(row.position_ids, sample["position_ids"].get<std::vector<int32_t>>());
  }
}

class SampleOrder : public ::testing::TestWithParam<const char*> {};

void expect_megatrons(const json& item, const DatasetConfig& config) {
  DatasetBuilder builder(config);
  int built = 0;
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    SCOPED_TRACE(split_name(split));
    const json& expected = item["splits"][std::string(split_name(split))];
    const json& wanted = item["num_samples"][static_cast<size_t>(split)];
    const auto source = builder.build(
        split, wanted.is_null() ? std::optional<int64_t>{} : std::optional(wanted.get<int64_t>()));
    ASSERT_EQ(source == nullptr, expected.is_null());
    if (source) expect_split(*source, expected), ++built;
  }
  EXPECT_GT(built, 0);
}

TEST_P(SampleOrder, IsMegatrons) {
  const json item = reference(GetParam());
  expect_megatrons(item, settings_of(item));
}

TEST_P(SampleOrder, IsMegatronsFromFiles) {
  const test::TemporaryFolder folder;
  const json item = reference(GetParam());
  DatasetConfig config = settings_of(item);
  config.path_to_cache = folder.path().string();
  config.num_dataset_builder_threads = 3;
  expect_megatrons(item, config);
  expect_megatrons(item, config);
}

INSTANTIATE_TEST_SUITE_P(Reference, SampleOrder,
                         ::testing::Values("one_epoch_part", "several_epochs", "last_epoch_apart",
                                           "flags", "blend_weights", "blend_equal",
                                           "blend_per_split"),
                         [](const auto& info) { return std::string(info.param); });

DatasetConfig corpus(const std::string& name) {
  DatasetConfig config;
  config.blend.emplace({test::test_data("sample_index/" + name).string()});
  config.split = "100,0,0";
  config.sequence_length = 16;
  return config;
}

TEST(SampleOrderErrors, AnEmptySplitNamesDatasetSplitAndSizes) {
  DatasetConfig config = corpus("corpus_c");
  config.split = "99,1,0";
  DatasetBuilder builder(config);
  EXPECT_EQ(builder.build(Split::valid, 0), nullptr);
  EXPECT_EQ(builder.build(Split::test, 5), nullptr);
  try {
    builder.build(Split::valid, 5);
    FAIL() << "an empty split was built";
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    for (const char* word : {"corpus_c", "valid", "[12, 12) of 12", "5 samples"}) {
      EXPECT_NE(message.find(word), std::string::npos) << message;
    }
  }
}

TEST(SampleOrderErrors, SettingsAreCheckedTogether) {
  DatasetConfig config = corpus("corpus_c");
  config.sequence_length = 0;
  config.random_seed = -1;
  config.split = "99,x";
  config.reset_attention_mask = true;
  try {
    DatasetBuilder builder(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 4u);
  }
  EXPECT_THROW(DatasetBuilder{DatasetConfig{}}, ConfigError);
}

TEST(SampleOrderErrors, SizesThatCannotBeBuiltAreRefused) {
  DatasetBuilder builder(corpus("corpus_c"));
  EXPECT_THROW(builder.build(Split::train, INT64_MAX), ConfigError);
  EXPECT_THROW(builder.build(Split::train, int64_t{1} << 50), ConfigError);
  EXPECT_THROW(builder.build(Split::train, -1), ConfigError);
  DatasetConfig blend = corpus("corpus_c");
  blend.blend->insert(blend.blend->begin(), "1.0");
  DatasetBuilder blends(blend);
  EXPECT_THROW(blends.build(Split::train, INT64_MAX), ConfigError);
  EXPECT_THROW(blends.build(Split::train, -1), ConfigError);
  EXPECT_THROW(blends.build(Split::train, std::nullopt), ConfigError);
  EXPECT_EQ(blends.build(Split::train, 7)->size(), 7);
}

TEST(SampleOrderErrors, TokensAboveTheVocabularyAreRefusedWhenRead) {
  DatasetBuilder builder(corpus("corpus_c"), 500);
  const auto source = builder.build(Split::train, std::nullopt);
  int refused = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    try {
      source->get(i);
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_THROW(source->get(source->size()), ShapeError);
}

TEST(SampleOrderThreads, RowsAreReadFromSeveralThreadsAtOnce) {
  DatasetConfig config = corpus("corpus_a");
  config.blend->insert(config.blend->begin(), "1");
  config.blend->push_back("2");
  config.blend->push_back(test::test_data("sample_index/corpus_b").string());
  DatasetBuilder builder(config);
  const auto source = builder.build(Split::train, 500);
  ThreadPool pool(4);
  std::vector<Sample> rows(static_cast<size_t>(source->size()));
  pool.run(source->size(), [&](int64_t i, int) { source->get(i, rows[static_cast<size_t>(i)]); });
  for (int64_t i = 0; i < source->size(); ++i) {
    EXPECT_EQ(rows[static_cast<size_t>(i)].tokens, source->get(i).tokens);
  }
}

// The samples of one epoch contain every token of the stream once (labels overlap by one).
TEST(SampleOrderProperty, OneEpochCoversTheStreamOnce) {
  for (const int64_t length : {1, 2, 7, 64, 500}) {
    DatasetConfig config = corpus("corpus_c");
    config.sequence_length = length;
    DatasetBuilder builder(config);
    const auto source = builder.build(Split::train, std::nullopt);
    const auto& dataset = dynamic_cast<const GptDataset&>(*source);
    std::vector<int32_t> stream;
    for (int64_t d = 0; d < dataset.index().documents(); ++d) {
      const int64_t sequence = dataset.index().document(d);
      std::vector<int32_t> tokens(static_cast<size_t>(dataset.dataset().sequence_length(sequence)));
      dataset.dataset().read(sequence, 0, std::span<int32_t>(tokens));
      stream.insert(stream.end(), tokens.begin(), tokens.end());
    }
    ASSERT_EQ(source->size(), (static_cast<int64_t>(stream.size()) - 1) / length);
    for (int64_t i = 0; i < source->size(); ++i) {
      const Sample row = source->get(i);
      const auto begin = stream.begin() + dataset.index().shuffled(i) * length;
      EXPECT_EQ(row.tokens, std::vector<int32_t>(begin, begin + length));
      EXPECT_EQ(row.labels, std::vector<int32_t>(begin + 1, begin + 1 + length));
    }
  }
}

}  // namespace
}  // namespace viaduct
