// Pictures as a vision tower takes them: the values of transformers' image processors
// (tests/data/images), and settings that are refused.

#include "image/image_processor.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "image/read_picture.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ImageProcessor, EqualsTransformers) {
  const json expected = json::parse(read_file(test::test_data("images/expected.json")));
  ASSERT_EQ(expected["processing"].size(), 7u);
  for (const json& reference : expected["processing"]) {
    const auto name = reference["file"].get<std::string>();
    const auto processor = ImageProcessor::of_json(reference["settings"], "test");
    const auto values = reference["values"].get<std::vector<float>>();
    ASSERT_EQ(processor.values(), values.size()) << reference["settings"];
    std::vector<float> own(values.size());
    processor.apply(read_picture(test::test_data("images/" + name)), name, own);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_FLOAT_EQ(own[i], values[i]) << reference["settings"] << " at " << i;
    }
  }
}

std::string problem_of(const std::string& settings) {
  try {
    ImageProcessor::of_json(json::parse(settings), "m/preprocessor_config.json");
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const IoError& error) {
    return std::string("damage: ") + error.what();
  }
  return "nothing";
}

TEST(ImageProcessor, WhatIsNotBuiltIsRefusedByName) {
  const struct {
    const char *settings, *message;
  } cases[] = {
      {"{}", "preprocessor_config.json: image_processor_type is missing"},
      {R"({"image_processor_type": "Qwen2VLImageProcessor"})",
       "image_processor_type Qwen2VLImageProcessor is not built; expected one of "
       "CLIPImageProcessor, "},
      {R"({"image_processor_type": "SigLIPImageProcessor"})", "(nearest: SiglipImageProcessor)"},
      {R"({"image_processor_type": "Gemma3ImageProcessor", "do_pan_and_scan": true})",
       "do_pan_and_scan=true is not built; expected false"},
      {R"({"image_processor_type": "Gemma3ImageProcessor", "do_center_crop": true})",
       "do_center_crop=true"},
      {R"({"image_processor_type": "CLIPImageProcessor", "do_pad": true})", "do_pad=true"},
      {R"({"image_processor_type": "CLIPImageProcessor", "resample": 1})",
       "resample=1 is not built; expected 2 (bilinear) or 3 (bicubic)"},
      {R"({"image_processor_type": "CLIPImageProcessor", "size": {"longest_edge": 9}})",
       "size.longest_edge is not built"},
      {R"({"image_processor_type": "CLIPImageProcessor", "size": {"height": 9}})",
       "expected height and width, or shortest_edge"},
      {R"({"image_processor_type": "CLIPImageProcessor", "size": 0})", "size=0"},
      {R"({"image_processor_type": "CLIPImageProcessor", "do_center_crop": false})",
       "size.shortest_edge=224 without do_center_crop"},
      {R"({"image_processor_type": "SiglipImageProcessor", "do_resize": false})",
       "neither do_resize nor do_center_crop"},
      {R"({"image_processor_type": "SiglipImageProcessor", "size": {"height": 8, "width": 9}})",
       "8 high and 9 wide"},
      {R"({"image_processor_type": "SiglipImageProcessor", "image_mean": [1, 2]})",
       "image_mean has 2 numbers, expected one for each of 3 channels"},
      {R"({"image_processor_type": "SiglipImageProcessor", "image_std": [1, 0, 2]})",
       "image_std has a 0"},
      {R"({"image_processor_type": "SiglipImageProcessor", "do_resize": 3})",
       "damage: m/preprocessor_config.json: \"do_resize\" must be true or false"},
  };
  for (const auto& row : cases) EXPECT_THAT(problem_of(row.settings), HasSubstr(row.message));
}

TEST(ImageProcessor, OlderAndNewerFilesAreRead) {
  const auto of = [](const char* text) { return ImageProcessor::of_json(json::parse(text), "x"); };
  const auto first = of(R"({"feature_extractor_type": "CLIPFeatureExtractor", "size": 336,
                            "crop_size": 336, "do_convert_rgb": null})");
  EXPECT_EQ(first.side(), 336);
  EXPECT_EQ(first.settings().shortest_edge, 336);
  EXPECT_EQ(of(R"({"image_processor_type": "CLIPImageProcessorFast"})").side(), 224);
  const auto gemma = of(R"({"image_processor_type": "Gemma3ImageProcessorPil", "size": 896,
                            "do_pan_and_scan": null})");
  EXPECT_EQ(gemma.side(), 896);
  EXPECT_EQ(gemma.settings().resampling, Resampling::bilinear);
}

TEST(ImageProcessor, TheFolderHasOneOrAnotherFile) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(ImageProcessor::load(folder.path()));
  write_file_atomically(folder / "preprocessor_config.json",
                        R"({"image_processor_type": "SiglipImageProcessor", "size": 384})"
                        "\n");
  // `size` of one number is the shorter side, which SigLIP does not crop.
  EXPECT_THROW(ImageProcessor::load(folder.path()), ConfigError);
  write_file_atomically(folder / "preprocessor_config.json",
                        R"({"image_processor_type": "CLIPImageProcessor"})");
  EXPECT_EQ(ImageProcessor::load(folder.path())->settings().type, "CLIPImageProcessor");
  write_file_atomically(folder / "processor_config.json", R"({"image_seq_length": 256})");
  EXPECT_EQ(ImageProcessor::load(folder.path())->settings().type, "CLIPImageProcessor");
  write_file_atomically(folder / "processor_config.json",
                        R"({"image_processor": {"image_processor_type": "Gemma3ImageProcessor"}})");
  EXPECT_EQ(ImageProcessor::load(folder.path())->settings().type, "Gemma3ImageProcessor");
}

}  // namespace
}  // namespace viaduct
