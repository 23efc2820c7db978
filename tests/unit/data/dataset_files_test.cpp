#include "data/dataset_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

struct DatasetFiles : testing::Test {
  DatasetFiles() {
    for (const char* name : {"train.idx", "train.bin", "half.idx", "text.txt"})
      write_file_atomically(folder / name, "x");
  }
  void check(std::vector<std::string> names) {
    DatasetConfig config;
    for (std::string& name : names) name = (folder / name).string();
    config.blend = std::move(names);
    check_dataset_files(config);
  }
  std::string problem(const std::string& name) {
    try {
      check({name});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string path(const std::string& name) { return (folder / name).string(); }
  TemporaryFolder folder;
};

TEST_F(DatasetFiles, ThatExistPass) {
  EXPECT_NO_THROW(check({"train"}));
  DatasetConfig mock;
  mock.mock = true;
  EXPECT_NO_THROW(check_dataset_files(mock));
}

TEST_F(DatasetFiles, AMissingOneIsNamedWithWhatMayBeMeant) {
  EXPECT_THAT(problem("trian"), AllOf(HasSubstr("dataset.blend: no data set " + path("trian")),
                                      HasSubstr("nearest: " + path("train"))));
  EXPECT_THAT(problem("train.bin"), HasSubstr("give the prefix, " + path("train")));
  EXPECT_THAT(problem("text.txt"), HasSubstr("viaduct data tokenize --input " + path("text.txt")));
  EXPECT_THAT(problem("half"), HasSubstr(path("half.bin") + " does not exist"));
  EXPECT_THAT(problem("."), HasSubstr("it is a folder, with the data sets "));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THAT(problem("empty"), HasSubstr("it is a folder without files, and no data set"));
}

TEST_F(DatasetFiles, AllAreListed) {
  try {
    check({"one", "train", "two"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 2u);
  }
}

}  // namespace
}  // namespace viaduct
