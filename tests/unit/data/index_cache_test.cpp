// Indices as files: their names and bytes, concurrent builds, and damaged files.

#include "data/index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/md5.h"
#include "data/dataset_builder.h"
#include "data/gpt_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Documents of 3, 4, 5, … tokens; `shift` gives other lengths with the same sum.
void write_documents(const std::filesystem::path& prefix, int documents = 40, int shift = 0) {
  IndexedDatasetWriter writer(prefix, TokenType::int32);
  for (int d = 0; d < documents; ++d) {
    const int length = 3 + (d + shift) % documents % 7;
    writer.add_document(std::vector<int32_t>(static_cast<size_t>(length), d));
  }
  writer.finish();
}

DatasetConfig config_of(const std::vector<std::filesystem::path>& prefixes,
                        const std::filesystem::path& cache) {
  DatasetConfig config;
  config.blend.emplace();
  for (const auto& prefix : prefixes) config.blend->push_back(prefix.string());
  config.split = "100,0,0";
  config.sequence_length = 4;
  config.path_to_cache = cache.string();
  return config;
}

std::vector<std::vector<int32_t>> rows_of(const SampleSource& source) {
  std::vector<std::vector<int32_t>> rows;
  for (int64_t i = 0; i < source.size(); ++i) rows.push_back(source.get(i).tokens);
  return rows;
}

std::vector<std::vector<int32_t>> rows_of(const DatasetConfig& config) {
  DatasetBuilder builder(config);
  return rows_of(*builder.build(Split::train, 100));
}

/// Files of a folder with this ending.
std::vector<std::filesystem::path> files(const std::filesystem::path& folder,
                                         const std::string& end) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(end)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void flip_last_byte(const std::filesystem::path& path) {
  std::string text = read_file(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_file_atomically(path, text);
}

bool is_mapped(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find(path.string()) != std::string::npos;
}

struct Corpus {
  Corpus() { write_documents(folder / "d"); }
  test::TemporaryFolder folder;
  DatasetConfig config = config_of({folder / "d"}, folder / "cache");
  std::filesystem::path only(const std::string& end) const {
    return files(folder / "cache", end).at(0);
  }
};

// Digests of Python's output by NumPy's rules.
TEST(IndexFiles, HeadersAreNumpys) {
  EXPECT_EQ(md5_hex(npy_header({IndexType::int32, 10, 0})), "3f0bec2fc605398a5f03aa053ad969fd");
  EXPECT_EQ(md5_hex(npy_header({IndexType::int64, 123456, 2})), "80fdfa794783e5c32d61adba276dcaa6");
  EXPECT_EQ(md5_hex(npy_header({IndexType::uint32, 7, 0})), "48394f38fc75b2330b8f8df86c899387");
  size_t bytes = 0;
  for (const IndexShape shape :
       {IndexShape{IndexType::int16, 0, 0}, IndexShape{IndexType::int64, int64_t{1} << 40, 2}}) {
    EXPECT_EQ(parse_npy_header(npy_header(shape), "x", bytes), shape);
    EXPECT_EQ(bytes, npy_header(shape).size());
  }
}

TEST(IndexFiles, HeadersThatAreNoneAreRefused) {
  size_t bytes = 0;
  const std::string good = npy_header({IndexType::int32, 10, 2});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& bad :
       {std::string(), good.substr(0, 20), with("<i4", "<f4"), with("False", "True "),
        with("10, 2", "10,-2"), with("10, 2", "1, 2,3"), with("'shape'", "'shake'"),
        with("(10, 2)", "(9223372036854775807, 2)")}) {
    EXPECT_THROW(parse_npy_header(bad, "x", bytes), IoError) << bad;
  }
}

// The digests are those of Python's json and hashlib.
TEST(IndexFiles, NamesAreTheDigestsOfMegatronsDescription) {
  const test::TemporaryFolder folder;
  write_documents(folder / "d");
  const MappedFile idx(folder / "d.idx"), bin(folder / "d.bin");
  const auto dataset = std::make_shared<const IndexedDataset>(IndexedDataset::from_memory(
      std::string(idx.text()), std::string(bin.text()), "data/\xc3\xa9/plays"));
  GptIndexRequest request{dataset, Split::train, {0, 38}, 900, 32, 7, "95,5,0"};
  IndexStorage storage{"/cache", false, false};
  EXPECT_EQ(gpt_index_files(request, storage).array_file(0),
            "/cache/0187b68e08836244d442e939733c01f6-GPTDataset-train-document_index.npy");
  request.split = Split::valid;
  request.num_samples.reset();
  request.split_weights.reset();
  storage.path_to_cache.reset();
  EXPECT_EQ(gpt_index_files(request, storage).array_file(2),
            "data/\xc3\xa9/plays/cache/GPTDataset_indices/"
            "fe5db0d9f2333ac78a5efb518d2c67fe-GPTDataset-valid-shuffle_index.npy");
}

TEST(IndexFiles, PositionsAndSamplesHaveAsManyBytesAsTheyNeed) {
  GptIndexPlan plan;
  plan.documents = (int64_t{1} << 31) - 1;
  plan.samples = (int64_t{1} << 32) - 3;
  EXPECT_EQ(plan.shapes()[1].type, IndexType::int32);
  EXPECT_EQ(plan.shapes()[2].type, IndexType::uint32);
  ++plan.documents;
  ++plan.samples;
  EXPECT_EQ(plan.shapes()[1].type, IndexType::int64);
  EXPECT_EQ(plan.shapes()[2].type, IndexType::int64);
}

TEST(IndexCache, IsMadeOnceAndThenMapped) {
  const Corpus corpus;
  const auto first = rows_of(corpus.config);
  const auto path = corpus.only("document_index.npy");
  const auto written = std::filesystem::last_write_time(path);
  DatasetBuilder builder(corpus.config);
  const auto source = builder.build(Split::train, 100);
  EXPECT_TRUE(dynamic_cast<const GptDataset&>(*source).index().document_index().mapped());
  EXPECT_EQ(rows_of(*source), first);
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  DatasetConfig memory = corpus.config;
  memory.path_to_cache.reset();
  EXPECT_EQ(rows_of(memory), first);
  EXPECT_FALSE(std::filesystem::exists(corpus.folder / "d"));  // small: no files beside the data
}

TEST(IndexCache, WhatIsNotRightIsMadeAgainWithAWarning) {
  const Corpus corpus;
  const auto rows = rows_of(corpus.config);
  const auto expect_made_again = [&](const std::string& warning) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(rows_of(corpus.config), rows);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(warning));
    testing::internal::CaptureStderr();
    EXPECT_EQ(rows_of(corpus.config), rows);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  };
  flip_last_byte(corpus.only("shuffle_index.npy"));
  expect_made_again("shuffle_index.npy is damaged");
  std::filesystem::resize_file(corpus.only("sample_index.npy"), 200);
  expect_made_again("sample_index.npy: 72 bytes for int32");
  std::filesystem::remove(corpus.only("document_index.npy"));
  expect_made_again("document_index.npy");
  write_file_atomically(corpus.only("checksums.json"), "{}");
  expect_made_again("checksums.json is damaged");
  std::filesystem::remove(corpus.only("checksums.json"));
  expect_made_again("another program wrote the arrays");
  write_file_atomically(corpus.only("description.txt"), "{}");
  expect_made_again("description.txt describes another order");
}

TEST(IndexCache, OtherDataUnderTheSameNameAreNotReadInTheOldOrder) {
  const Corpus corpus;
  rows_of(corpus.config);
  write_documents(corpus.folder / "d", 40, 1);  // with equal numbers of documents and tokens
  DatasetConfig memory = corpus.config;
  memory.path_to_cache.reset();
  testing::internal::CaptureStderr();
  EXPECT_EQ(rows_of(corpus.config), rows_of(memory));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the data differ from"));
}

TEST(IndexCache, ManyWhoComeAtOnceMakeItOnce) {
  const test::TemporaryFolder folder;
  IndexCacheEntry entry{
      folder / "cache", "description", "Test-train", {"a"}, {{IndexType::int32, 1000, 0}}, 7};
  std::atomic<int> built = 0, right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto arrays = load_or_build(entry, [&](IndexSink& sink) {
        ++built;
        std::vector<int32_t> values(1000, 5);
        sink.begin(entry.shapes[0]);
        sink.write(values.data(), values.size() * sizeof(int32_t));
      });
      if (arrays.at(0).size() == 1000 && arrays[0][999] == 5) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(built, 1);
  EXPECT_EQ(right, 8);
}

TEST(IndexCache, LargeOrdersAreKeptBesideTheData) {
  const test::TemporaryFolder folder;
  write_documents(folder / "d");
  DatasetConfig config = config_of({folder / "d"}, {});
  config.path_to_cache.reset();
  config.sequence_length = 1;
  const int64_t samples = kSmallIndexBytes / 12 + 1;  // 8 bytes at its beginning, 4 of the shuffle
  DatasetBuilder builder(config);
  EXPECT_GE(builder.build(Split::train, samples)->size(), samples);
  EXPECT_EQ(files(folder / "d" / "cache" / "GPTDataset_indices", ".npy").size(), 3u);
  // If no cache can be written, each rank keeps the arrays in memory.
  std::filesystem::remove_all(folder / "d");
  write_file_atomically(folder / "d", "in the way");
  testing::internal::CaptureStderr();
  EXPECT_GE(builder.build(Split::train, samples)->size(), samples);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("in its own memory"));
  // A folder given by the user must be usable.
  config.path_to_cache = (folder / "d").string();
  DatasetBuilder named(config);
  EXPECT_THROW(named.build(Split::train, 5), IoError);
}

TEST(IndexCache, DeferredArraysAreMappedWithTheFirstRow) {
  Corpus corpus;
  corpus.config.defer_npy_index_mmap = true;
  for (const bool there : {false, true}) {
    SCOPED_TRACE(there);
    DatasetBuilder builder(corpus.config);
    const auto source = builder.build(Split::train, 100);
    EXPECT_GE(source->size(), 100);
    const auto path = corpus.only("document_index.npy");
    EXPECT_FALSE(is_mapped(path));
    source->get(3);
    EXPECT_TRUE(is_mapped(path));
  }
}

TEST(IndexCache, TrustedArraysAreNotLookedAt) {
  Corpus corpus;
  corpus.config.fast_cache_load = true;
  EXPECT_THAT([&] { rows_of(corpus.config); },
              ThrowsMessage<IoError>(HasSubstr("document_index.npy is missing: "
                                               "dataset.fast_cache_load=true makes no index")));
  corpus.config.fast_cache_load = false;
  const auto rows = rows_of(corpus.config);
  corpus.config.fast_cache_load = true;
  EXPECT_EQ(rows_of(corpus.config), rows);
  corpus.config.defer_npy_index_mmap = true;
  EXPECT_EQ(rows_of(corpus.config), rows);

  // A wrong but possible position of a sample is trusted; an impossible one is an error when it is
  // read.
  std::string starts = read_file(corpus.only("sample_index.npy"));
  starts[npy_header({IndexType::int32, 1, 2}).size() + 8] = 127;  // the second sample's position
  write_file_atomically(corpus.only("sample_index.npy"), starts);
  EXPECT_THAT([&] { rows_of(corpus.config); },
              ThrowsMessage<IoError>(HasSubstr("it is damaged, or belongs to other data")));
}

TEST(IndexCache, ATrustedIndexOfDocumentsIsCheckedWhereItIsRead) {
  Corpus corpus;
  rows_of(corpus.config);
  std::string idx = read_file(corpus.folder / "d.idx");
  const int64_t far = int64_t{1} << 40;
  std::memcpy(idx.data() + 34 + 40 * 4 + 39 * 8, &far, 8);  // the beginning of the last sequence
  write_file_atomically(corpus.folder / "d.idx", idx);
  EXPECT_THROW(IndexedDataset(corpus.folder / "d"), IoError);
  corpus.config.fast_cache_load = true;
  DatasetBuilder builder(corpus.config);
  const auto source = builder.build(Split::train, 100);
  int refused = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    try {
      source->get(i);
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("sequence 39"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, source->size());
}

TEST(IndexCache, TrustAndDelayNeedAFolder) {
  DatasetConfig config = config_of({"x"}, {});
  config.path_to_cache.reset();
  config.fast_cache_load = config.defer_npy_index_mmap = true;
  EXPECT_EQ(dataset_config_problems(config).size(), 2u);
}

TEST(IndexCache, BlendsAreKeptToo) {
  const test::TemporaryFolder folder;
  write_documents(folder / "a");
  write_documents(folder / "b", 20);
  DatasetConfig config = config_of({folder / "a", folder / "b"}, folder / "cache");
  config.blend->insert(config.blend->begin(), "0.7");
  config.blend->insert(config.blend->begin() + 2, "0.3");
  const auto rows = rows_of(config);
  const auto names = files(folder / "cache", "dataset_sample_index.npy");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_THAT(names[0].string(), HasSubstr("-BlendedDataset-train-"));
  DatasetConfig memory = config;
  memory.path_to_cache.reset();
  EXPECT_EQ(rows_of(memory), rows);
  flip_last_byte(names[0]);
  testing::internal::CaptureStderr();
  EXPECT_EQ(rows_of(config), rows);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("index.npy is damaged"));
  config.defer_npy_index_mmap = true;
  DatasetBuilder builder(config);
  const auto source = builder.build(Split::train, 100);
  EXPECT_FALSE(is_mapped(names[0]));
  source->get(0);
  EXPECT_TRUE(is_mapped(names[0]));
  config.fast_cache_load = true;
  EXPECT_EQ(rows_of(config), rows);
}

// The first data set waits for a lock; a second thread builds the other's index meanwhile.
TEST(IndexCache, DataSetsOfABlendAreIndexedByManyThreads) {
  const test::TemporaryFolder folder;
  write_documents(folder / "a");
  write_documents(folder / "b");
  DatasetConfig config = config_of({folder / "a", folder / "b"}, folder / "cache");
  config.num_dataset_builder_threads = 2;
  DatasetBuilder builder(config);
  GptIndexRequest request{builder.open((folder / "a").string()),
                          Split::train,
                          {0, 40},
                          std::nullopt,
                          4,
                          1234,
                          config.split};
  const IndexCacheEntry entry = gpt_index_files(request, {config.path_to_cache, false, false});
  std::filesystem::create_directories(entry.folder);
  std::thread build;
  size_t made = 0;
  {
    const FileLock lock(entry.file("lock"));
    build = std::thread([&] { builder.build(Split::train, 20); });
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
         made == 0 && std::chrono::steady_clock::now() < end;)
      made = files(folder / "cache", "checksums.json").size();
    EXPECT_FALSE(std::filesystem::exists(entry.file("checksums.json")));
  }
  build.join();
  EXPECT_EQ(made, 1u);
  EXPECT_EQ(files(folder / "cache", "checksums.json").size(), 3u);  // and that of the blend
}

}  // namespace
}  // namespace viaduct
