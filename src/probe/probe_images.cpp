// The images in the batch file of `probe`.

#include <algorithm>

#include "base/error.h"
#include "probe/probe_batch.h"

namespace viaduct {
namespace {

/// f32 values of a floating tensor.
std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    const auto* from = tensor.data<decltype(zero)>();
    std::transform(from, from + tensor.elements(), values.begin(),
                   [](auto value) { return static_cast<float>(value); });
  });
  return values;
}

}  // namespace

void read_probe_images(const TensorSource& file, const std::string& prefix, int64_t step,
                       const VisionConfig& vision, ProbeBatch& batch) {
  const std::string name = prefix + "pixel_values";
  const TensorInfo* info = file.find(name);
  VIADUCT_CHECK(ConfigError, info == nullptr || vision.any(),
                "{}: {} is for models with images, and this one reads none", file.where(), name);
  if (!vision.any()) return;
  batch.image_token = vision.image_token, batch.image_rows = vision.rows();
  if (info != nullptr) {
    const int first = step >= 0 ? 1 : 0;
    VIADUCT_CHECK(IoError,
                  info->shape.rank() == first + 4 && is_floating(info->dtype) &&
                      info->shape[first + 1] == vision.channels &&
                      info->shape[first + 2] == vision.image_size &&
                      info->shape[first + 3] == vision.image_size,
                  "{}: {} is {} {}, expected a floating tensor [{}images, {}, {}, {}]",
                  file.where(), name, dtype_name(info->dtype), to_string(info->shape),
                  step >= 0 ? "N, " : "", vision.channels, vision.image_size, vision.image_size);
    Tensor tensor = file.tensor(name);
    if (step >= 0) tensor = tensor.select(step);
    batch.images = {tensor.dim(0), vision.channels, vision.image_size, vision.image_size,
                    values_of(tensor)};
    file.check_read();
  }
  const auto tokens = std::ranges::count(batch.ids, batch.image_token);
  VIADUCT_CHECK(IoError, tokens == batch.images.count * batch.image_rows,
                "{}: {}input_ids has {} tokens of images (id {}), and {} has {} images, which have "
                "{} each: expected {} tokens",
                file.where(), prefix, tokens, batch.image_token, name, batch.images.count,
                batch.image_rows, batch.images.count * batch.image_rows);
}

ImageBatch ProbeBatch::images_of(int64_t begin, int64_t count) const {
  if (images.empty()) return {};
  const auto before = [&](int64_t row) {
    const auto tokens = std::count(ids.begin(), ids.begin() + row * length, image_token);
    VIADUCT_CHECK(IoError, tokens % image_rows == 0,
                  "probe batch: row {} begins inside of an image, after {} of its {} tokens", row,
                  tokens % image_rows, image_rows);
    return tokens / image_rows;
  };
  const int64_t first = before(begin), end = before(begin + count),
                size = images.channels * images.height * images.width;
  ImageBatch part{end - first, images.channels, images.height, images.width, {}};
  part.pixels.assign(images.pixels.begin() + first * size, images.pixels.begin() + end * size);
  return part;
}

}  // namespace viaduct
