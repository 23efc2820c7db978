// Generation with images: logits of the reference behind prompts with two images, none and one,
// and a conversation that goes on with the images that it has.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/safetensors_reader.h"
#include "generate/generate.h"
#include "generate/kept_sequence.h"
#include "inference/open_generator.h"
#include "run/inference_setup.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using Ids = std::vector<int32_t>;

class ImageGeneration : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return test::test_data("golden") / GetParam(); }
  SafetensorsFile golden() const { return SafetensorsFile(folder() / "golden.safetensors"); }
  /// Tokens [begin, end) of a row.
  Ids ids(int64_t row, int64_t begin, int64_t end) const {
    const Tensor all = golden().tensor("input_ids");
    const auto* values = all.data<int64_t>() + row * all.dim(1);
    return {values + begin, values + end};
  }
  /// `count` images from number `first` on.
  ImageBatch images(int64_t first, int64_t count) const {
    const Tensor all = golden().tensor("pixel_values");
    const int64_t size = all.elements() / all.dim(0);
    const auto* values = all.data<float>() + first * size;
    return {count, all.dim(1), all.dim(2), all.dim(3), {values, values + count * size}};
  }
  /// Calls f with a generator of the model on each rank.
  template <class F>
  void with_generator(const std::vector<std::string>& layout, F&& f) const {
    std::vector<std::string> overrides{"mixed_precision=fp32", "dist.threads_per_rank=1",
                                       "dist.distributed_timeout_minutes=1"};
    overrides.insert(overrides.end(), layout.begin(), layout.end());
    const RunSetup setup = prepare_inference(
        {.model = folder() / "model", .overrides = overrides, .few_tokens = true, .images = true});
    const ResolvedRun run = resolve_run(setup.config, setup.model);
    run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const RankDevice rank = make_rank_device(setup.config.dist);
      Generator generator = open_generator(setup, run, 32, *rank.device, rank.ops, world);
      read_weights(generator, setup, *world);
      f(generator);
    });
  }
};

TEST_P(ImageGeneration, LogitsAreThoseOfTheReference) {
  const Tensor expected = golden().tensor("logits");  // [rows, T, V]
  const int64_t rows = expected.dim(0), length = expected.dim(1), vocabulary = expected.dim(2);
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{}, {"dist.ranks=2", "model.tensor_model_parallel_size=2"}}) {
    with_generator(layout, [&](Generator& generator) {
      generator.start(rows);
      generator.show(0, images(0, 2));
      generator.show(2, images(2, 1));
      constexpr int64_t kPrompt = 20;
      for (int64_t fed = 0; fed < length;) {
        const int64_t end = fed == 0 ? kPrompt : fed + 1;
        std::vector<Ids> feeds;
        for (int64_t row = 0; row < rows; ++row) feeds.push_back(ids(row, fed, end));
        const Tensor logits = generator.feed(feeds);
        fed = end;
        for (int64_t i = 0; i < rows * vocabulary; ++i) {
          const int64_t row = i / vocabulary;
          const float value =
              expected.data<float>()[(row * length + end - 1) * vocabulary + i % vocabulary];
          ASSERT_NEAR(logits.data<float>()[i], value, 1e-4 * std::max(1.0f, std::abs(value)))
              << "row " << row << ", token " << end - 1;
        }
      }
    });
  }
}

TEST_P(ImageGeneration, AConversationKeepsItsImages) {
  with_generator({}, [&](Generator& generator) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    const auto go_on = [](int32_t) { return true; };
    const Prompt first{.ids = ids(2, 0, 16), .max_new_tokens = 2, .images = images(2, 1)};
    Prompt second = first, other = first;
    const Ids more = ids(2, 16, 20);
    second.ids.insert(second.ids.end(), more.begin(), more.end());
    other.images = images(0, 1);
    const auto fresh = [&](const Prompt& prompt) {
      return generate(generator, {&prompt, 1}, options, [](size_t, int32_t) { return true; })
          .front()
          .tokens;
    };
    const Ids of_first = fresh(first), of_second = fresh(second), of_other = fresh(other);
    KeptSequence kept(generator);
    EXPECT_EQ(kept.answer(first, options, go_on).tokens, of_first);
    EXPECT_EQ(kept.reused(), 0);
    EXPECT_EQ(kept.answer(second, options, go_on).tokens, of_second);
    EXPECT_GE(kept.reused(), 16);
    EXPECT_EQ(kept.answer(other, options, go_on).tokens, of_other);
    EXPECT_EQ(kept.reused(), 0);
    EXPECT_EQ(kept.answer(second, options, go_on).tokens, of_second);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, ImageGeneration,
                         testing::Values("gemma3_images", "llava_clip", "llava_siglip"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
