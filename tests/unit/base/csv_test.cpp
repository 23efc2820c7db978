// CSV tables: what is read, and what is refused with its line number.

#include "base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view text) {
  try {
    parse_csv(text, "t.csv");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(Csv, CellsInQuotesHoldCommasQuotesAndLineBreaks) {
  const CsvTable table =
      parse_csv("\xEF\xBB\xBFid, note ,n\r\na,\"x, \"\"y\"\"\nz\",1\r\n\r\nb,,\n", "t.csv");
  EXPECT_THAT(table.columns, ElementsAre("id", "note", "n"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.cell(table.rows[0], "note"), "x, \"y\"\nz");
  EXPECT_EQ(table.cell(table.rows[0], "n"), "1");
  EXPECT_EQ(table.cell(table.rows[1], "note"), "");
  EXPECT_EQ(table.cell(table.rows[1], "absent"), "");
  EXPECT_EQ(table.rows[1].line, 5);  // the quoted line break counts, and so does the empty line
}

TEST(Csv, ALastLineNeedsNoEnd) {
  const CsvTable table = parse_csv("a,b\n1,2", "t.csv");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.cell(table.rows[0], "b"), "2");
}

TEST(Csv, WhatIsNoTableIsRefusedWithItsLine) {
  EXPECT_THAT(
      error_of("a,b\n1,2\n1,2,3\n"),
      AllOf(HasSubstr("t.csv, line 3"), HasSubstr("expected 2 cells"), HasSubstr("found 3")));
  EXPECT_THAT(error_of("a,b\n1\n"), HasSubstr("found 1"));
  EXPECT_THAT(error_of("a\n\"x\n"), AllOf(HasSubstr("line 2"), HasSubstr("no closing quote")));
  EXPECT_THAT(error_of("a,b\n\"x\"y,1\n"), HasSubstr("after a quoted cell"));
  EXPECT_THAT(error_of("a,a\n"), HasSubstr("two columns are named a"));
  EXPECT_THAT(error_of("a,,b\n"), HasSubstr("column 2 has no name"));
  EXPECT_THAT(error_of(""), HasSubstr("found nothing"));
  EXPECT_THAT(error_of(std::string_view("a\n\0\n", 4)), HasSubstr("zero byte"));
}

}  // namespace
}  // namespace viaduct
