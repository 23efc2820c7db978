#include "data/indexed_dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

const char* const kNames[] = {"docs_uint16",  "lines_int32",   "modes_int64",
                              "part2_uint16", "merged_uint16", "bytes_uint8"};

json reference(const std::string& name) {
  return json::parse(read_file(test::test_data("indexed_dataset/" + name + ".json")));
}

std::vector<int64_t> read_all(const IndexedDataset& dataset, int64_t sequence) {
  std::vector<int64_t> tokens(static_cast<size_t>(dataset.sequence_length(sequence)));
  dataset.read(sequence, 0, std::span<int64_t>(tokens));
  return tokens;
}

void expect_same_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  for (const char* suffix : {".bin", ".idx"}) {
    EXPECT_EQ(read_file(a.string() + suffix), read_file(b.string() + suffix)) << suffix;
  }
}

class ReferenceFile : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceFile, IsReadAsItsDescriptionSays) {
  const json expected = reference(GetParam());
  const IndexedDataset dataset(test::test_data(std::string("indexed_dataset/") + GetParam()));
  EXPECT_EQ(token_type_name(dataset.token_type()), expected["dtype"]);
  ASSERT_EQ(dataset.sequence_count(), expected["sequence_count"]);
  EXPECT_EQ(dataset.document_count(), expected["document_count"]);
  EXPECT_EQ(dataset.total_tokens(), expected["total_tokens"]);
  ASSERT_EQ(dataset.has_modes(), !expected["sequence_modes"].is_null());
  for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
    const size_t at = static_cast<size_t>(i);
    EXPECT_EQ(dataset.sequence_length(i), expected["sequence_lengths"][at]);
    EXPECT_EQ(dataset.sequence_offset(i), expected["sequence_pointers_bytes"][at]);
    EXPECT_EQ(read_all(dataset, i), expected["sequences"][at].get<std::vector<int64_t>>());
    if (dataset.has_modes()) {
      EXPECT_EQ(dataset.sequence_mode(i), expected["sequence_modes"][at]);
    }
  }
  for (int64_t i = 0; i <= dataset.document_count(); ++i) {
    EXPECT_EQ(dataset.document_start(i), expected["document_indices"][static_cast<size_t>(i)]);
  }
  for (const json& partial : expected["partial_reads"]) {
    const int64_t sequence = partial["sequence"], offset = partial["offset"];
    const int64_t length = partial["length"].is_null() ? dataset.sequence_length(sequence) - offset
                                                       : partial["length"].get<int64_t>();
    std::vector<int64_t> tokens(static_cast<size_t>(length));
    dataset.read(sequence, offset, std::span<int64_t>(tokens));
    EXPECT_EQ(tokens, partial["tokens"].get<std::vector<int64_t>>());
  }
}

TEST_P(ReferenceFile, IsWrittenByteForByte) {
  const json expected = reference(GetParam());
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "copy",
                              static_cast<TokenType>(expected["dtype_code"].get<int>()));
  const auto documents = expected["document_indices"].get<std::vector<int64_t>>();
  for (size_t d = 0; d + 1 < documents.size(); ++d) {
    for (int64_t i = documents[d]; i < documents[d + 1]; ++i) {
      const auto tokens = expected["sequences"][static_cast<size_t>(i)].get<std::vector<int64_t>>();
      if (expected["sequence_modes"].is_null()) {
        writer.add_sequence(std::span<const int64_t>(tokens));
      } else {
        writer.add_sequence(tokens,
                            expected["sequence_modes"][static_cast<size_t>(i)].get<int8_t>());
      }
    }
    writer.end_document();
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.bin"));
  writer.finish();
  expect_same_files(folder / "copy", test::test_data(std::string("indexed_dataset/") + GetParam()));
}

INSTANTIATE_TEST_SUITE_P(IndexedDataset, ReferenceFile, ::testing::ValuesIn(kNames),
                         [](const auto& info) { return std::string(info.param); });

TEST(IndexedDatasetMerge, EqualsTheReference) {
  const test::TemporaryFolder folder;
  merge_indexed_datasets({test::test_data("indexed_dataset/docs_uint16"),
                          test::test_data("indexed_dataset/part2_uint16")},
                         folder / "merged");
  expect_same_files(folder / "merged", test::test_data("indexed_dataset/merged_uint16"));
}

TEST(IndexedDatasetMerge, RefusesMixedTypesAndModes) {
  const test::TemporaryFolder folder;
  const auto docs = test::test_data("indexed_dataset/docs_uint16");
  EXPECT_THROW(
      merge_indexed_datasets({docs, test::test_data("indexed_dataset/lines_int32")}, folder / "m"),
      IoError);
  IndexedDatasetWriter plain(folder / "plain", TokenType::int64);
  plain.add_document(std::vector<int32_t>{1, 2});
  plain.finish();
  EXPECT_THROW(
      merge_indexed_datasets({folder / "plain", test::test_data("indexed_dataset/modes_int64")},
                             folder / "m"),
      IoError);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.idx"));
}

TEST(IndexedDatasetWriter, RefusesTokensThatTheTypeCannotHold) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "small", TokenType::uint16);
  writer.add_document(std::vector<int32_t>{0, 65535});
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{1, 65536}), IoError);
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{-1}), IoError);
  writer.finish();
  EXPECT_EQ(IndexedDataset(folder / "small").total_tokens(), 2);
}

TEST(IndexedDatasetWriter, WritesFilesWithoutSequences) {
  const test::TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "empty", TokenType::int32);
  writer.end_document();
  writer.finish();
  const IndexedDataset dataset(folder / "empty");
  EXPECT_EQ(dataset.sequence_count(), 0);
  EXPECT_EQ(dataset.document_count(), 1);
}

TEST(IndexedDatasetWriter, RoundTripsRandomDocumentsOfEveryType) {
  const test::TemporaryFolder folder;
  for (int code = 1; code <= 8; ++code) {
    const auto prefix = folder / ("type" + std::to_string(code));
    std::vector<std::vector<int64_t>> sequences;
    IndexedDatasetWriter writer(prefix, static_cast<TokenType>(code));
    for (uint64_t i = 0; i < 50; ++i) {
      std::vector<int64_t> tokens(philox4x32(7, i, 0)[0] % 40);
      for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = philox4x32(7, i, t + 1)[0] % 128;
      writer.add_sequence(std::span<const int64_t>(tokens));
      if (i % 3 == 0) writer.end_document();
      sequences.push_back(std::move(tokens));
    }
    writer.end_document();
    writer.finish();
    const IndexedDataset dataset(prefix);
    ASSERT_EQ(dataset.sequence_count(), 50);
    for (int64_t i = 0; i < 50; ++i) {
      std::vector<double> values(static_cast<size_t>(dataset.sequence_length(i)));
      dataset.read(i, 0, std::span<double>(values));
      const auto& tokens = sequences[static_cast<size_t>(i)];
      EXPECT_EQ(values, std::vector<double>(tokens.begin(), tokens.end()));
      if (code == 6 || code == 7) {
        EXPECT_THROW(read_all(dataset, i), IoError);
      }
    }
  }
}

TEST(IndexedDatasetRead, ChecksRangesAndModelInput) {
  const IndexedDataset dataset(test::test_data("indexed_dataset/modes_int64"));
  std::vector<int64_t> wide(1);
  const int64_t length = dataset.sequence_length(0);
  EXPECT_THROW(dataset.read(0, length, std::span<int64_t>(wide)), ShapeError);
  EXPECT_THROW(dataset.read(0, -1, std::span<int64_t>(wide)), ShapeError);
  EXPECT_THROW(dataset.read(dataset.sequence_count(), 0, std::span<int64_t>(wide)), ShapeError);
  // This file holds values above 32 bits, which no model has as tokens.
  bool refused = false;
  for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
    std::vector<int32_t> tokens(static_cast<size_t>(dataset.sequence_length(i)));
    try {
      dataset.read(i, 0, std::span<int32_t>(tokens));
    } catch (const IoError&) {
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
}

// Hostile indices: every field of a good file replaced by bad values, one at a time.
class HostileIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    index_ = read_file(test::test_data("indexed_dataset/lines_int32.idx"));
    std::filesystem::copy_file(test::test_data("indexed_dataset/lines_int32.bin"),
                               folder_ / "bad.bin");
    std::memcpy(&sequences_, index_.data() + 18, 8);
    std::memcpy(&entries_, index_.data() + 26, 8);
  }
  template <class T>
  void expect_refused_with(size_t at, T value, const std::string& words) {
    std::string bad = index_;
    std::memcpy(bad.data() + at, &value, sizeof value);
    expect_refused(bad, words);
  }
  void expect_refused(const std::string& bad, const std::string& words) {
    write_file_atomically(folder_ / "bad.idx", bad);
    try {
      IndexedDataset dataset(folder_ / "bad");
      FAIL() << "accepted; expected: " << words;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  test::TemporaryFolder folder_;
  std::string index_;
  uint64_t sequences_ = 0, entries_ = 0;
};

TEST_F(HostileIndex, Header) {
  expect_refused("", "shorter than the header");
  expect_refused(index_.substr(0, 33), "shorter than the header");
  expect_refused_with<char>(0, 'X', "MMIDIDX");
  expect_refused_with<uint64_t>(9, 2, "version 2");
  expect_refused_with<uint8_t>(17, 0, "dtype code 0");
  expect_refused_with<uint8_t>(17, 9, "dtype code 9");
}

TEST_F(HostileIndex, CountsNeverAllocateOrWrap) {
  for (const uint64_t count :
       {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 61, sequences_ + 1}) {
    expect_refused_with<uint64_t>(18, count, "");
    expect_refused_with<uint64_t>(26, count, "");
  }
  // 2^62 sequences of 12 bytes wrap to 0 bytes in 64 bits.
  expect_refused_with<uint64_t>(18, uint64_t{1} << 62, "do not fit");
  expect_refused_with<uint64_t>(26, 0, "empty");
  for (size_t bytes = 34; bytes < index_.size(); bytes += 7)
    expect_refused(index_.substr(0, bytes), "fit");
  expect_refused(index_ + "abc", "after the document index");
}

TEST_F(HostileIndex, LengthsAndOffsets) {
  const size_t lengths = 34, offsets = lengths + sequences_ * 4;
  expect_refused_with<int32_t>(lengths, -1, "negative length");
  expect_refused_with<int32_t>(lengths, 0x7FFFFFFF, "outside of");
  expect_refused_with<int64_t>(offsets + 8, -4, "outside of");
  expect_refused_with<int64_t>(offsets + 8, int64_t{1} << 40, "outside of");
  expect_refused_with<int64_t>(offsets + 8, INT64_MAX, "outside of");
}

TEST_F(HostileIndex, DocumentIndex) {
  const size_t documents = 34 + sequences_ * 12;
  expect_refused_with<int64_t>(documents, 1, "begins with");
  expect_refused_with<int64_t>(documents + 8, -1, "expected 0 to");
  expect_refused_with<int64_t>(documents + 8, static_cast<int64_t>(sequences_) + 1,
                               "expected 0 to");
  expect_refused_with<int64_t>(documents + (entries_ - 1) * 8, 0, "");
}

TEST_F(HostileIndex, MissingFilesAreNamed) {
  EXPECT_THROW(IndexedDataset(folder_ / "absent"), IoError);
  write_file_atomically(folder_ / "bad.bin", "");
  expect_refused(index_, "outside of");
}

}  // namespace
}  // namespace viaduct
