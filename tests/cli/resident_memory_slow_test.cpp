// Resident memory grows by the planned peak, within 3 %, summed over ranks. Above 1 GiB, where a
// process's other memory is negligible.

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/command.h"

namespace viaduct {
namespace {

class ResidentMemory : public testing::TestWithParam<const char*> {};

TEST_P(ResidentMemory, GrowsByThePlannedPeak) {
  // 67 million parameters, nearly all in the embedding, so that a step of few tokens is fast.
  const auto result = test::run_viaduct(
      "bench step --config " + test::source_folder().string() +
      "/configs/bench/llama_10m.yaml --steps 1 --warmup 1 --json mixed_precision=fp32 "
      "model.hidden_size=640 model.num_attention_heads=10 model.num_query_groups=2 "
      "model.num_layers=2 model.vocab_size=100000 model.seq_length=32 train.global_batch_size=2 "
      "train.micro_batch_size=1 dist.ranks=2 " +
      GetParam());
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["ranks"], 2);
  const double peak = 2 * document["peak_memory_bytes_of_ranks"]["mean"].get<double>();
  EXPECT_GT(peak, 1024.0 * 1024 * 1024);
  EXPECT_NEAR(document["resident_growth_bytes"].get<double>() / peak, 1, 0.03);
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  return std::vector{"dp2", "tp2", "pp2", "states_in_a_file"}.at(info.index);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ResidentMemory,
                         testing::Values("", "model.tensor_model_parallel_size=2",
                                         "model.pipeline_model_parallel_size=2",
                                         "optimizer.optimizer_cpu_offload=true "
                                         "optimizer.optimizer_offload_fraction=1 "
                                         "memory.offload_path=/tmp"),
                         name_of);

}  // namespace
}  // namespace viaduct
