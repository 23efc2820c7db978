// Weights as tiles: the meaning of `auto`, and refusals of `true`.

#include "run/packed_weights.h"

#include <gmock/gmock.h>

#include "config/load.h"
#include "run/parallel_settings.h"
#include "run/validate.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Overrides = std::vector<std::string>;

RunConfig config_of(Overrides settings) {
  RunConfig config;
  settings.insert(settings.begin(), {"model.seq_length=256", "train.global_batch_size=16"});
  const Schema schema = run_schema(config);
  Problems problems;
  read_config(schema, {{}, settings}, problems);
  EXPECT_THAT(problems.all(), IsEmpty()) << "the settings themselves";
  return config;
}

bool automatic(const Overrides& settings) {
  RunConfig config = config_of(settings);
  resolve_parallel(config);
  resolve_packed_weights(config);
  return config.packing.packed_weights.value();
}

std::vector<std::string> problems_of(const Overrides& settings) {
  Problems problems;
  validate_packed_weights(config_of(settings), problems);
  return problems.all();
}

const std::string kTiles = "dist.cpu_isa=avx512_bf16", kBf16 = "mixed_precision=bf16_mixed";
std::string rows(int n) {
  return "train.micro_batch_size=" + std::to_string(n);
}

TEST(PackedWeights, AutoIsOnForSeveralShortMicroBatches) {
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(2)}));
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(4)}));
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(8)})) << "2048 tokens";
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(8), "dist.ranks=2", "model.context_parallel_size=2"}))
      << "1024 of them on a rank";
  EXPECT_TRUE(automatic({"dist.cpu_isa=amx", kBf16, rows(8)}));
  EXPECT_FALSE(automatic({"dist.cpu_isa=amx", kBf16, rows(16)})) << "one micro-batch";
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(2), "train.global_batch_size=2"}));
  EXPECT_FALSE(automatic({kTiles, "mixed_precision=fp32", rows(2)}));
  EXPECT_FALSE(automatic({"dist.cpu_isa=avx512", kBf16, rows(2)}));
  EXPECT_FALSE(automatic({kTiles, kBf16, rows(2), "model.packed_weights=false"}));
  EXPECT_TRUE(automatic({kTiles, kBf16, rows(16), "model.packed_weights=true"}));
}

TEST(PackedWeights, TrueNeedsProductsThatReadTiles) {
  const std::string on = "model.packed_weights=true";
  EXPECT_THAT(problems_of({kTiles, kBf16, on}), IsEmpty());
  EXPECT_THAT(problems_of({"dist.cpu_isa=avx2", kBf16, on}),
              ElementsAre(HasSubstr("found avx2 and bf16_mixed; auto leaves it off")));
  EXPECT_THAT(problems_of({kTiles, "mixed_precision=fp16_mixed", on}),
              ElementsAre(HasSubstr("found avx512_bf16 and fp16_mixed")));
  EXPECT_THAT(problems_of({"dist.cpu_isa=avx2", kBf16}), IsEmpty());
}

}  // namespace
}  // namespace viaduct
