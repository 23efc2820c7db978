// A file of whole records on a disk that becomes full.

#include "report/append_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

TEST(AppendFile, HoldsNoHalfRecords) {
  test::TemporaryFolder folder;
  AppendFile file(folder / "records", AppendFile::Mode::append);
  file.append("first\n");
  {
    const test::FileSizeLimit full(10);
    EXPECT_THROW(file.append("second\n"), IoError);
  }
  EXPECT_EQ(read_file(folder / "records"), "first\n");
  file.append("third\n");
  EXPECT_EQ(read_file(folder / "records"), "first\nthird\n");
}

}  // namespace
}  // namespace viaduct
