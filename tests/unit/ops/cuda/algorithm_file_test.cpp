// The file with the algorithms of products: several users of one file agree, what is damaged or
// made elsewhere is refused, and a reader never sees half a file.

#include "ops/cuda/algorithm_file.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const AlgorithmSource kSource{"GPU", 90, 13000, 130100};

StoredAlgorithm algorithm(uint64_t word, int64_t place = 0) {
  return {{word, ~word, 0, 1, 2, 3, 4, 5}, place, 2.5e-6, 3e-6};
}

class AlgorithmFileTest : public testing::Test {
 protected:
  void replace(std::string_view what, std::string_view by) const {
    std::string text = read_file(path_);
    const size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos);
    write_file_atomically(path_, text.replace(at, what.size(), by));
  }
  void expect_refused(const AlgorithmSource& source, const std::string& reason) const {
    EXPECT_THAT([&] { AlgorithmFile(path_, source); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("dist.product_algorithms_path"),
                                                 HasSubstr(path_.string()), HasSubstr(reason))))
        << reason;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "algorithms.json";
};

TEST_F(AlgorithmFileTest, KeepsWhatWasPublished) {
  {
    AlgorithmFile file(path_, kSource);
    EXPECT_EQ(file.find("kind"), std::nullopt);
    file.publish("kind", algorithm(7, 3));
    file.publish("other \"kind\"", algorithm(8));
  }
  AlgorithmFile file(path_, kSource);
  EXPECT_EQ(file.kinds(), 2);
  EXPECT_EQ(file.find("kind"), algorithm(7, 3));
  EXPECT_EQ(file.find("other \"kind\""), algorithm(8));
}

TEST_F(AlgorithmFileTest, TheFirstOfItsUsersDecides) {
  AlgorithmFile first(path_, kSource), second(path_, kSource), third(path_, kSource);
  EXPECT_EQ(first.publish("kind", algorithm(1)), algorithm(1));
  EXPECT_EQ(second.publish("kind", algorithm(2)), algorithm(1));
  EXPECT_EQ(second.publish("another", algorithm(3)), algorithm(3));
  EXPECT_EQ(third.find("another"), algorithm(3)) << "published after third was opened";
  EXPECT_EQ(AlgorithmFile(path_, kSource).kinds(), 2);
}

TEST_F(AlgorithmFileTest, RefusesAnotherGpuOrLibrary) {
  AlgorithmFile(path_, kSource).publish("kind", algorithm(1));
  const std::string before = read_file(path_);
  expect_refused({"other GPU", 90, 13000, 130100},
                 "GPU (compute capability 9.0) with cuBLASLt 13.1.0, and this rank has other GPU");
  expect_refused({"GPU", 100, 13000, 130100}, "this rank has GPU (compute capability 10.0)");
  expect_refused({"GPU", 90, 13000, 130201},
                 "this rank has GPU (compute capability 9.0) with "
                 "cuBLASLt 13.2.1");
  EXPECT_EQ(read_file(path_), before);
  // Another driver runs the same kernels.
  EXPECT_EQ(AlgorithmFile(path_, {"GPU", 90, 12080, 130100}).find("kind"), algorithm(1));
}

TEST_F(AlgorithmFileTest, RefusesDamage) {
  AlgorithmFile(path_, kSource).publish("kind", algorithm(0xabc));
  const std::string whole = read_file(path_);
  replace("abc", "abd");
  expect_refused(kSource, "damaged, or changed by hand");
  write_file_atomically(path_, whole.substr(0, whole.size() / 2));
  expect_refused(kSource, "not valid JSON");
  write_file_atomically(path_, "");
  expect_refused(kSource, "not valid JSON");
  write_file_atomically(path_, "[1]");
  expect_refused(kSource, "no file of product algorithms");
  write_file_atomically(path_, "{\"format\": \"viaduct product algorithms\", \"version\": 2}");
  expect_refused(kSource, "version 2 of the format");
  EXPECT_EQ(read_file(path_).find("\"version\": 2") != std::string::npos, true)
      << "what is refused stays as it is";
}

/// No prefix of a file is taken for a whole one.
TEST_F(AlgorithmFileTest, ReadsWholeTextsAlone) {
  const std::map<std::string, StoredAlgorithm> algorithms{{"kind", algorithm(9, 1)}};
  const std::string text = algorithm_text(kSource, algorithms);
  AlgorithmSource found;
  EXPECT_EQ(parse_algorithms(text, "text", found), algorithms);
  EXPECT_EQ(found.gpu, kSource.gpu);
  EXPECT_EQ(found.driver, kSource.driver);
  EXPECT_EQ(found.library, kSource.library);
  for (size_t bytes = 0; bytes + 1 < text.size(); ++bytes)
    EXPECT_THROW(parse_algorithms(text.substr(0, bytes), "text", found), IoError) << bytes;
}

TEST_F(AlgorithmFileTest, AnUnusableFolderIsAnErrorAtOnce) {
  EXPECT_THAT([&] { AlgorithmFile(folder_ / "none" / "file.json", kSource); },
              ThrowsMessage<IoError>(HasSubstr("none/file.json")));
}

}  // namespace
}  // namespace viaduct::cuda
