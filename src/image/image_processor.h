#pragma once
// From a picture to the numbers that a vision tower takes, as the preprocessor_config.json of a
// model says: Hugging Face's image processors of CLIP, SigLIP, LLaVA and Gemma 3.

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/image_batch.h"
#include "image/picture.h"
#include "image/resize.h"

namespace viaduct {

/// The steps, in this order. Sizes in pixels.
struct ImageProcessorSettings {
  std::string type;            // "CLIPImageProcessor", …
  bool pad_to_square = false;  // with the mean colour, before everything else
  bool resize = true;
  std::optional<int64_t> shortest_edge;  // keeps the ratio of the sides; else height and width
  int64_t height = 224, width = 224;
  Resampling resampling = Resampling::bicubic;
  bool center_crop = true;  // a smaller picture gets black borders
  int64_t crop_height = 224, crop_width = 224;
  bool rescale = true;
  double rescale_factor = 1.0 / 255;
  bool normalize = true;
  std::array<double, 3> mean{}, std{};
};

class ImageProcessor {
 public:
  /// Of the settings of a JSON object, which `where` names; what is missing is as the processor's
  /// class has it. ConfigError for a processor that is not built, for a step of it that is not, for
  /// settings that do not make squares of one size; IoError for members of wrong types.
  static ImageProcessor of_json(const nlohmann::json& settings, const std::string& where);
  /// Of a model's folder: `image_processor` in processor_config.json, else
  /// preprocessor_config.json. Nothing where neither is there.
  static std::optional<ImageProcessor> load(const std::filesystem::path& folder);

  const ImageProcessorSettings& settings() const { return settings_; }
  static constexpr int64_t kChannels = 3;
  /// Height and width of what it makes.
  int64_t side() const { return side_; }
  /// FP32 values of one picture.
  size_t values() const { return static_cast<size_t>(kChannels * side_ * side_); }

  /// [channels, side, side] of a picture, which `name` stands for in messages. IoError where
  /// resizing it would go beyond PictureLimits. Several threads may use one processor.
  void apply(const Picture& picture, std::string_view name, std::span<float> values) const;
  /// Puts it behind the images of a batch. Errors as `apply`; ShapeError for images of other sizes.
  void append(const Picture& picture, std::string_view name, ImageBatch& batch) const;

 private:
  explicit ImageProcessor(ImageProcessorSettings settings, const std::string& where);

  ImageProcessorSettings settings_;
  int64_t side_ = 0;
};

}  // namespace viaduct
