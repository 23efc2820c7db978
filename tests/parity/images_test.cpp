// Models with images: ten steps of AdamW compared with Hugging Face's implementation, of rows with
// two images, none and one, and which parts have gradients. Logits, loss and every gradient are
// compared with it in golden_test.cpp.

#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::probe_layout;
using test::relative_error;
using test::test_data;

class Images : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return test_data("golden") / GetParam(); }
  std::map<std::string, Tensor> probe(std::vector<std::string> overrides) const {
    overrides.push_back("dist.ranks=1");
    return probe_layout(folder() / "model", folder() / "golden.safetensors", false, overrides);
  }
};

TEST_P(Images, TenStepsFollowTheTrace) {
  std::vector<std::string> overrides = test::reference_optimizer();
  overrides.push_back("dist.ranks=1");
  const auto got =
      probe_layout(folder() / "model", folder() / "train.safetensors", true, overrides);
  const SafetensorsFile file(folder() / "train.safetensors");
  for (int64_t step = 0; step < 10; ++step) {
    const float loss = file.tensor("loss").data<float>()[step],
                norm = file.tensor("grad_norm").data<float>()[step];
    EXPECT_NEAR(got.at("loss").data<float>()[step], loss, 2e-4 * loss) << "step " << step + 1;
    EXPECT_NEAR(got.at("grad_norm").data<float>()[step], norm, 2e-4 * norm) << "step " << step + 1;
  }
}

/// Other parts have the gradients that they have without it.
TEST_P(Images, AFrozenPartHasNoGradient) {
  const auto all = probe({});
  for (const auto& [field, part] :
       {std::pair{"model.freeze_vision_model=true", "grad.vision_tower."},
        {"model.freeze_vision_projection=true", "grad.multi_modal_projector."},
        {"model.freeze_language_model=true", "grad.language_model."}}) {
    const auto got = probe({field});
    for (const auto& [name, tensor] : all) {
      if (!name.starts_with("grad.")) continue;
      EXPECT_EQ(got.contains(name), !name.starts_with(part)) << field << " " << name;
      if (!got.contains(name)) continue;
      EXPECT_EQ(relative_error(got.at(name), tensor), 0) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Images,
                         testing::Values("gemma3_images", "llava_clip", "llava_siglip"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
