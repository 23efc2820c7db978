// Adapters on the blocks of a GGUF file: every layout equals one rank.

#include <gtest/gtest.h>

#include "checkpoint/gguf_model.h"
#include "checkpoint/model_folder.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::test_data;

class GgufBaseLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(GgufBaseLayouts, EqualOneRank) {
  const ModelFolder from = resolve_model_folder(test_data("golden/llama/model"));
  const test::TemporaryFolder folder;
  write_gguf(folder / "m.gguf", "name", read_model_config(from), *open_weights(from), {},
             ExportFormat::q8_0);
  const auto probe = [&](const LayoutCase& c) {
    std::vector<std::string> overrides = c.overrides;
    overrides.push_back("peft.adapter=" + test_data("golden/lora_llama/adapter").string());
    overrides.push_back("peft.base_format=blocks");
    return test::probe_layout(folder / "m.gguf", test_data("golden/lora_llama/golden.safetensors"),
                              false, overrides);
  };
  const auto one = probe(layout(1, 1, 1, 1)), many = probe(GetParam());
  ASSERT_EQ(many.size(), one.size());
  EXPECT_GT(one.size(), 50u);  // gradients of the factors
  for (const auto& [name, tensor] : one)
    EXPECT_LE(test::relative_error(many.at(name), tensor), 2e-5) << name;
}

INSTANTIATE_TEST_SUITE_P(Cases, GgufBaseLayouts,
                         testing::Values(layout(2, 1, 1, 1), layout(1, 2, 1, 1),
                                         layout(1, 1, 2, 1, {"train.micro_batch_size=1"}),
                                         layout(1, 1, 1, 2)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
