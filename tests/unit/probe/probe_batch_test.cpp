// The batch file of `probe`: which tokens are scored, where documents begin, and refusals of what
// the layers could not follow.

#include "probe/probe_batch.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ProbeBatchTest : public testing::Test {
 protected:
  ProbeBatch read(const std::map<std::string, std::vector<int64_t>>& fields, int64_t rows = 1) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, values] : fields) {
      const auto count = static_cast<int64_t>(values.size());
      const Tensor tensor = host_tensor(DType::i64, {rows, count / rows});
      std::copy(values.begin(), values.end(), tensor.data<int64_t>());
      tensors.emplace(name, tensor);
    }
    write_safetensors(folder_ / "batch.safetensors", tensors);
    return read_probe_batch(SafetensorsFile(folder_ / "batch.safetensors"), "", -1);
  }
  test::TemporaryFolder folder_;
};

TEST_F(ProbeBatchTest, TheNextTokenIsTheTarget) {
  const HostBatch batch = read({{"input_ids", {1, 2, 3, 4, 5, 6}}}, 2).micro_batch(0, 2);
  EXPECT_THAT(batch.targets, ElementsAre(2, 3, -1, 5, 6, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(batch.document_offsets, ElementsAre(0, 3, 6));
  EXPECT_EQ(batch.scored_weight(), 4);
}

TEST_F(ProbeBatchTest, DocumentsOfARowAreApart) {
  const HostBatch batch =
      read({{"input_ids", {1, 2, 3, 4, 5}}, {"document_ids", {7, 7, 8, 8, 8}}}).micro_batch(0, 1);
  EXPECT_THAT(batch.targets, ElementsAre(2, -1, 4, 5, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(batch.document_offsets, ElementsAre(0, 2, 5));
}

TEST_F(ProbeBatchTest, HiddenEndsKeepThePositions) {
  const ProbeBatch file = read({{"input_ids", {1, 2, 3, 4, 5, 6}},
                                {"labels", {-100, -100, -100, 4, -100, -100}},
                                {"attention_mask", {0, 0, 1, 1, 0, 0}}});
  const HostBatch batch = file.micro_batch(0, 1);
  EXPECT_THAT(batch.targets, ElementsAre(-1, -1, 4, -1, -1, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.document_offsets, ElementsAre(0, 2, 4, 6));
}

TEST_F(ProbeBatchTest, PositionsMayBeCountedFromTheMask) {
  const std::vector<int64_t> ids{1, 2, 3, 4, 5, 6}, labels(6, -100), mask{0, 0, 1, 1, 1, 0};
  const auto positions = [](ProbeBatch file) {
    file.count_positions_from_mask();
    return file.micro_batch(0, 1).positions;
  };
  EXPECT_THAT(positions(read({{"input_ids", ids}, {"labels", labels}, {"attention_mask", mask}})),
              ElementsAre(0, 0, 0, 1, 2, 0));
  EXPECT_THAT(positions(read({{"input_ids", ids},
                              {"labels", labels},
                              {"attention_mask", {0, 1, 1, 0, 1, 1}},
                              {"document_ids", {4, 4, 4, 5, 5, 5}}})),
              ElementsAre(0, 0, 1, 0, 0, 1));
  EXPECT_THAT(positions(read({{"input_ids", ids}})), ElementsAre(0, 1, 2, 3, 4, 5)) << "no mask";
  EXPECT_THAT(positions(read({{"input_ids", ids},
                              {"labels", labels},
                              {"attention_mask", mask},
                              {"position_ids", {7, 8, 9, 10, 11, 12}}})),
              ElementsAre(7, 8, 9, 10, 11, 12));
}

TEST_F(ProbeBatchTest, HolesInTheMaskAreRefused) {
  const std::vector<int64_t> ids{1, 2, 3, 4, 5, 6}, labels(6, -100);
  EXPECT_THAT(
      [&] {
        read({{"input_ids", ids}, {"labels", labels}, {"attention_mask", {1, 1, 0, 0, 1, 1}}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("middle of row 0, before token 4")));
  // Masked tokens at the end of a document or of a row are allowed.
  EXPECT_NO_THROW(read({{"input_ids", ids},
                        {"labels", labels},
                        {"document_ids", {1, 1, 1, 2, 2, 2}},
                        {"attention_mask", {1, 1, 0, 1, 1, 0}}}));
  EXPECT_NO_THROW(
      read({{"input_ids", ids}, {"labels", labels}, {"attention_mask", {1, 1, 0, 1, 1, 0}}}, 2));
}

TEST_F(ProbeBatchTest, LabelsOfHiddenTokensAreRefused) {
  const auto with = [&](const std::vector<int64_t>& mask) {
    const ProbeBatch batch =
        read({{"input_ids", {1, 2, 3, 4}}, {"labels", {-100, 2, 3, 4}}, {"attention_mask", mask}});
    batch.micro_batch(0, 1);
  };
  EXPECT_THAT(
      [&] {
        with({1, 1, 1, 0});
      },
      ThrowsMessage<ConfigError>(HasSubstr("token 3 is hidden")));
  EXPECT_THAT(
      [&] {
        with({0, 1, 1, 1});
      },
      ThrowsMessage<ConfigError>(HasSubstr("token 0 is hidden")));
}

TEST_F(ProbeBatchTest, PositionsMayGoBeyondTheRow) {
  EXPECT_EQ(read({{"input_ids", {1, 2, 3}}}).position_limit(), 3);
  EXPECT_EQ(read({{"input_ids", {1, 2, 3}}, {"position_ids", {4, 9, 5}}}).position_limit(), 10);
}

}  // namespace
}  // namespace viaduct
