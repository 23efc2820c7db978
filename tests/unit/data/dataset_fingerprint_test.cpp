// Fingerprints of the data in a checkpoint.

#include "data/dataset_fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DatasetFingerprint write_and_read(const std::filesystem::path& prefix,
                                  const std::vector<std::vector<int32_t>>& documents) {
  {
    IndexedDatasetWriter writer(prefix, TokenType::uint16);
    for (const auto& document : documents) writer.add_document(document);
    writer.finish();
  }
  return fingerprint(IndexedDataset(prefix));
}

TEST(DatasetFingerprint, SaysWhatChanged) {
  TemporaryFolder folder;
  const auto one = write_and_read(folder / "one", {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(one.documents, 2);
  EXPECT_EQ(one.tokens, 5);
  EXPECT_THAT(changed_data({one}, {write_and_read(folder / "moved", {{1, 2, 3}, {4, 5}})}),
              IsEmpty());
  EXPECT_THAT(changed_data({one}, {write_and_read(folder / "b", {{1, 2, 3}, {4, 5, 6}})}),
              ElementsAre(HasSubstr("5 tokens, 2 sequences, 2 documents then, 6, 2, 2 now")));
  EXPECT_THAT(changed_data({one}, {write_and_read(folder / "b", {{1, 2, 3}, {4, 6}})}),
              ElementsAre(HasSubstr("b.bin: the same number of tokens, but different ones")));
  EXPECT_THAT(changed_data({one}, {write_and_read(folder / "b", {{1, 2}, {3, 4, 5}})}),
              ElementsAre(HasSubstr("b.idx: the same number of entries, but different ones")));
  EXPECT_THAT(changed_data({one}, {one, one}), ElementsAre(HasSubstr("1 file then, 2 now")));
  EXPECT_EQ(fingerprints_from_json(to_json({one, one}), "x"),
            (std::vector<DatasetFingerprint>{one, one}));
  for (const char* damaged : {"", "{}", "{\"files\":[{}]}", "{\"files\":[1]}"})
    EXPECT_THROW(fingerprints_from_json(damaged, "x"), IoError) << damaged;
}

TEST(DatasetFingerprint, OfALongFileSeesItsEndsAndWholeBlocks) {
  TemporaryFolder folder;
  const std::vector<int32_t> tokens(2'000'000, 7);
  const auto before = write_and_read(folder / "long", {tokens});
  for (const size_t place : {size_t{0}, tokens.size() - 1}) {
    auto changed = tokens;
    changed[place] = 8;
    EXPECT_EQ(changed_data({before}, {write_and_read(folder / "long", {changed})}).size(), 1u);
  }
  // A different text of the same length: no block is equal.
  auto other = tokens;
  for (size_t i = 0; i < other.size(); i += 100) other[i] = 9;
  EXPECT_EQ(changed_data({before}, {write_and_read(folder / "long", {other})}).size(), 1u);
}

TEST(DatasetFingerprint, PrefixesInTheOrderOfTheConfiguration) {
  DatasetConfig config;
  config.blend = {"0.3", "b", "0.7", "a", "0.1", "b"};
  EXPECT_THAT(dataset_prefixes(config), ElementsAre("b", "a"));
  config = {};
  config.blend_per_split = {
      {std::vector<std::string>{"t"}, std::nullopt, std::vector<std::string>{"z"}}};
  EXPECT_THAT(dataset_prefixes(config), ElementsAre("t", "z"));
}

}  // namespace
}  // namespace viaduct
