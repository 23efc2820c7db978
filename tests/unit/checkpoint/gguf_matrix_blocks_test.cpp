// Blocks of a GGUF file as rows of the matrices that products read: their values are those of the
// tensors, whatever order the file has.

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_folder.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "tensor/gguf_blocks.h"

namespace viaduct {
namespace {

/// W [out, in] of a tensor as it is, or of its transpose.
float value_of(const Tensor& tensor, bool transposed, int64_t row, int64_t column) {
  return tensor
      .data<float>()[transposed ? column * tensor.dim(1) + row : row * tensor.dim(1) + column];
}

TEST(GgufMatrixBlocks, AreRowsOfTheOutputs) {
  for (const char* name : {"llama", "gpt2"}) {  // rows of q and k in pairs; transposed
    SCOPED_TRACE(name);
    const ModelFolder from = resolve_model_folder(test::test_data("golden") / name / "model");
    const test::TemporaryFolder folder;
    write_gguf(folder / "m.gguf", "name", read_model_config(from), *open_weights(from), {},
               ExportFormat::q8_0);
    const auto weights = open_weights(resolve_model_folder(folder / "m.gguf"));
    int matrices = 0;
    for (const TensorInfo& info : weights->tensors()) {
      const auto type = weights->block_type(info.name);
      if (!type) continue;
      EXPECT_EQ(*type, GgufTensorType::q8_0);
      ++matrices;
      const Tensor whole = weights->tensor(info.name);
      const bool transposed =
          name == std::string("gpt2") && info.name.find(".h.") != std::string::npos;
      const int64_t rows = info.shape[transposed ? 1 : 0], columns = info.shape[transposed ? 0 : 1];
      const int64_t column = columns > 32 ? 32 : 0;
      for (int64_t row = 0; row < rows; row += 3) {
        std::byte block[34];
        float values[32];
        weights->read_blocks(info.name, row, column, 32, block);
        decode_gguf_elements(*type, block, 0, 32, values);
        for (int64_t i = 0; i < 32; ++i)
          ASSERT_EQ(values[i], value_of(whole, transposed, row, column + i)) << info.name;
      }
      std::byte none[34];
      EXPECT_THROW(weights->read_blocks(info.name, rows, 0, 32, none), ShapeError);
      EXPECT_THROW(weights->read_blocks(info.name, 0, 16, 32, none), ShapeError);
    }
    EXPECT_GT(matrices, 8);
    const auto plain = open_weights(from);
    EXPECT_FALSE(plain->block_type(plain->tensors().front().name));
  }
}

}  // namespace
}  // namespace viaduct
