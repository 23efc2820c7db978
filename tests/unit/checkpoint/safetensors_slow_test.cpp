// A header as large as the format allows.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"

namespace viaduct {
namespace {

TEST(Safetensors, AMillionTensorsAreRead) {
  constexpr int64_t kTensors = 1'000'000;
  std::vector<TensorInfo> infos(kTensors);
  for (int64_t i = 0; i < kTensors; ++i) {
    infos[static_cast<size_t>(i)].name = fmt::format("layers.{}.w", i);
    infos[static_cast<size_t>(i)].dtype = DType::u8;
    infos[static_cast<size_t>(i)].shape = Shape{1};
  }
  const std::string file = make_safetensors_header(infos, {}) + std::string(kTensors, 'x');
  const auto read = SafetensorsFile::from_memory(file, "large");
  EXPECT_EQ(read.tensors().size(), static_cast<size_t>(kTensors));
  EXPECT_EQ(read.tensors().back().name, "layers.999999.w");
}

}  // namespace
}  // namespace viaduct
