// The batch file of `probe` for models with an encoder: rows of both stacks, what is scored, and
// which of the encoder's tokens the decoder attends to.

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "probe/probe_batch.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ProbePairsTest : public testing::Test {
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
    return read_probe_pairs(SafetensorsFile(folder_ / "batch.safetensors"), "", -1, model_);
  }
  EncoderConfig model_{.layers = 2, .start_token = 9, .padding_token = 8};
  test::TemporaryFolder folder_;
};

TEST_F(ProbePairsTest, LabelsAreScoredInPlaceAndMakeTheDecodersRows) {
  const HostBatch batch =
      read({{"input_ids", {1, 2, 3, 4, 5, 6, 7, 8}}, {"labels", {11, 12, 13, 14, -100, -100}}}, 2)
          .micro_batch(0, 2);
  EXPECT_THAT(batch.ids, ElementsAre(9, 11, 12, 9, 14, 8));
  EXPECT_THAT(batch.targets, ElementsAre(11, 12, 13, 14, -1, -1));
  EXPECT_THAT(batch.document_offsets, ElementsAre(0, 3, 6));
  EXPECT_EQ(batch.scored_weight(), 4);
  EXPECT_THAT(batch.encoder->ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(batch.encoder->document_offsets, ElementsAre(0, 4, 8));
  EXPECT_EQ(batch.encoder->scored_weight(), 0);
  EXPECT_THAT(batch.encoder_document, ElementsAre(0, 1));
}

TEST_F(ProbePairsTest, GivenRowsOfTheDecoderAreTaken) {
  const HostBatch batch =
      read({{"input_ids", {1, 2}}, {"labels", {11, 12, 13}}, {"decoder_input_ids", {4, 5, 6}}})
          .micro_batch(0, 1);
  EXPECT_THAT(batch.ids, ElementsAre(4, 5, 6));
}

/// Row 0 ends in padding, row 1 begins with it, row 2 is nothing else.
TEST_F(ProbePairsTest, PaddingIsADocumentThatNothingAttendsTo) {
  const ProbeBatch file = read({{"input_ids", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
                                {"attention_mask", {1, 1, 0, 0, 1, 1, 0, 0, 0}},
                                {"labels", {11, 12, 13, 14, 15, 16}}},
                               3);
  const HostBatch all = file.micro_batch(0, 3);
  EXPECT_THAT(all.encoder->document_offsets, ElementsAre(0, 2, 3, 4, 6, 9));
  EXPECT_THAT(all.encoder_document, ElementsAre(0, 3, -1));
  const HostBatch last = file.micro_batch(1, 2);
  EXPECT_THAT(last.encoder_document, ElementsAre(1, -1));
}

TEST_F(ProbePairsTest, NamesWhatIsMissingOrDoesNotFit) {
  EXPECT_THAT(
      [&] {
        read({{"input_ids", {1, 2}}});
      },
      ThrowsMessage<IoError>(HasSubstr("labels is missing")));
  EXPECT_THAT(
      [&] {
        read({{"input_ids", {1, 2}}, {"labels", {1}}, {"attention_mask", {1}}});
      },
      ThrowsMessage<IoError>(HasSubstr("attention_mask has 1 rows of 1 tokens")));
  EXPECT_THAT(
      [&] {
        read({{"input_ids", {1, 2}}, {"labels", {1}}, {"position_ids", {0, 1}}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("position_ids is not supported")));
  EXPECT_THAT(
      [&] {
        read({{"input_ids", {1, 2, 3}}, {"labels", {1}}, {"attention_mask", {1, 0, 1}}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("hides tokens in the middle of row 0")));
}

}  // namespace
}  // namespace viaduct
