// Which token ends documents, and data that disagree with it.

#include "data/document_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset_builder.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_record.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class DocumentEnds : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<std::vector<int32_t>>& documents) {
    IndexedDatasetWriter writer(folder_ / name, TokenType::uint16);
    for (const auto& document : documents) writer.add_document(document);
    writer.finish();
    return (folder_ / name).string();
  }
  /// What `viaduct data tokenize` would say about it.
  static void record(const std::string& prefix, int64_t separator, int64_t inside = 0) {
    write_token_record(prefix,
                       {.largest_token = 100, .separator = separator, .inner_separators = inside});
  }
  DatasetConfig config(const std::vector<std::string>& prefixes, int64_t eod = -1) const {
    DatasetConfig config;
    config.blend = prefixes;
    config.sequence_length = 4;
    config.reset_attention_mask = true;
    if (eod >= 0) config.eod_id = eod;
    return config;
  }
  std::vector<std::string> warnings(const DatasetConfig& config) {
    DatasetBuilder builder(config);
    return separator_warnings(builder);
  }

  test::TemporaryFolder folder_;
};

TEST_F(DocumentEnds, TheSeparatorIsTheOneThatWasWritten) {
  const std::string a = write("a", {{1, 2, 9}, {3, 9}}), b = write("b", {{1, 8}});
  EXPECT_EQ(recorded_separator(config({a, b})), std::nullopt);
  record(a, 9);
  EXPECT_EQ(recorded_separator(config({a, b})), 9);
  record(b, 8);
  EXPECT_THAT(
      [&] {
        recorded_separator(config({a, b}));
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr(a), HasSubstr("token 9"), HasSubstr(b),
                                       HasSubstr("with 8"), HasSubstr("dataset.eod_id"))));
  record(b, -1);  // --no-append-eod
  EXPECT_EQ(recorded_separator(config({a, b})), 9);
  EXPECT_EQ(recorded_separator(config({(folder_ / "none").string()})), std::nullopt);
}

// A chat model's end of a message is in each document several times.
TEST_F(DocumentEnds, MoreEndsThanDocumentsAreSaid) {
  const std::string chat = write("chat", {{1, 7, 2, 7, 9}, {3, 9}, {4, 7, 9}});
  EXPECT_THAT(warnings(config({chat}, 7)),
              ElementsAre(AllOf(HasSubstr("rows have more ends than documents"),
                                HasSubstr("2 of the first 3 documents hold it inside, 3 times "
                                          "(first: document 0)"))));
  EXPECT_THAT(warnings(config({chat}, 9)), IsEmpty());
  // With a record nothing is read.
  record(chat, 9, 5);
  EXPECT_THAT(warnings(config({chat}, 9)), ElementsAre(HasSubstr("hold 5 more of it inside")));
  EXPECT_THAT(warnings(config({chat}, 7)), ElementsAre(HasSubstr("its documents end with token 9"),
                                                       HasSubstr("more ends than")));
  record(chat, -1);
  EXPECT_THAT(warnings(config({chat}, 9)), ElementsAre(HasSubstr("--no-append-eod")));
  DatasetConfig off = config({chat}, 7);
  off.reset_attention_mask = false;
  EXPECT_THAT(warnings(off), IsEmpty()) << "nothing looks for ends";
}

TEST_F(DocumentEnds, MergedDataKeepTheirSeparator) {
  const std::string a = write("a", {{1, 9}}), b = write("b", {{2, 9, 3, 9}});
  record(a, 9);
  record(b, 9, 1);
  const auto merged = [&](const std::string& name) {
    merge_indexed_datasets({a, b}, folder_ / name);
    return read_token_record(IndexedDataset(folder_ / name));
  };
  const auto both = merged("both");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->separator, 9);
  EXPECT_EQ(both->inner_separators, 1);
  record(b, 8);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(merged("other")) << "no token ends the documents of both";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("documents of " + a + " end with token 9"),
                    HasSubstr("those of " + b + " with token 8")));
}

// Data of another program have no record.
TEST_F(DocumentEnds, ATokenThatEndsNothingIsSaid) {
  const std::string other = write("other", {{1, 7, 9}, {3, 9}});
  EXPECT_THAT(warnings(config({other}, 9)), IsEmpty());
  EXPECT_THAT(warnings(config({other}, 8)),
              ElementsAre(HasSubstr("none of its first 2 documents ends with dataset.eod_id = 8")));
}

}  // namespace
}  // namespace viaduct
