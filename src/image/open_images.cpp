#include "image/open_images.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "data/image_files.h"
#include "image/image_index.h"

namespace viaduct {
namespace {

class ProcessedImages final : public RowImages {
 public:
  ProcessedImages(ImageIndex index, ImageProcessor processor)
      : index_(std::move(index)), processor_(std::move(processor)) {}

  int32_t token() const override { return static_cast<int32_t>(index_.tokens().id); }
  void append(int64_t sequence, ImageBatch& batch) const override {
    index_.append(sequence, processor_, batch);
  }

 private:
  ImageIndex index_;
  ImageProcessor processor_;
};

ImageProcessor processor_of(const std::vector<std::filesystem::path>& folders,
                            const std::string& prefix, const ImageRowSettings& model) {
  std::vector<std::string> searched;
  for (const std::filesystem::path& folder : folders) {
    auto processor = ImageProcessor::load(folder);
    searched.push_back(folder.string());
    if (!processor) continue;
    VIADUCT_CHECK(
        ConfigError, processor->side() == model.side && ImageProcessor::kChannels == model.channels,
        "{}: {} makes pictures of {} channels and {} pixels a side, and the model takes {} of {}",
        folder.string(), processor->settings().type, ImageProcessor::kChannels, processor->side(),
        model.channels, model.side);
    return *std::move(processor);
  }
  fail<ConfigError>(
      "data set {} has pictures, and how the model takes them is not known: expected "
      "preprocessor_config.json or processor_config.json in {}",
      prefix,
      searched.empty() ? "the model's folder" : fmt::format("{}", fmt::join(searched, " or ")));
}

}  // namespace

ImageOpener image_opener(std::vector<std::filesystem::path> folders,
                         const ImageRowSettings& model) {
  return [folders = std::move(folders), model](
             const std::string& prefix, int64_t sequences) -> std::shared_ptr<const RowImages> {
    ImageIndex index(prefix, sequences);
    const ImagePlaceTokens& tokens = index.tokens();
    VIADUCT_CHECK(ConfigError, tokens.id == model.token && tokens.count == model.rows,
                  "data set {} has {} tokens of id {} for a picture, and the model {} of id {}: "
                  "expected a data set made with the model's tokenizer (viaduct data chat)",
                  prefix, tokens.count, tokens.id, model.rows, model.token);
    return std::make_shared<ProcessedImages>(std::move(index),
                                             processor_of(folders, prefix, model));
  };
}

}  // namespace viaduct
