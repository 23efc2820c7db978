#include "engine/image_rows.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/upload_values.h"

namespace viaduct {
namespace {

/// Ids of the tower's tokens (nn/batch.h).
constexpr int32_t kLeading = 0, kPatch = 1;
constexpr int64_t kIds = 2;

/// [patches, channels · side²], the pixels of a patch channel by channel and row by row; patches in
/// the order of an image's rows.
void cut_patches(const ImageBatch& images, const ImageForm& form, float* to) {
  const int64_t across = form.side / form.patch, line = images.width,
                plane = images.height * images.width;
  for (int64_t image = 0; image < images.count; ++image) {
    const float* pixels = images.pixels.data() + image * images.channels * plane;
    for (int64_t patch = 0; patch < across * across; ++patch) {
      const float* corner =
          pixels + patch / across * form.patch * line + patch % across * form.patch;
      for (int64_t channel = 0; channel < images.channels; ++channel) {
        for (int64_t y = 0; y < form.patch; ++y) {
          std::memcpy(to, corner + channel * plane + y * line,
                      static_cast<size_t>(form.patch) * sizeof(float));
          to += form.patch;
        }
      }
    }
  }
}

/// The tower's tokens of all images.
HostBatch tower_rows(const HostBatch& batch, const ImageForm& form) {
  HostBatch rows;
  rows.sizes_only = batch.sizes_only;
  const std::vector<int64_t> begins = batch.dealt ? batch.dealt->begins : image_begins(batch, form);
  for (int64_t image = 0; image < batch.images.count; ++image) {
    if (rows.sizes_only) {
      rows.add_document_of(form.tokens);
      continue;
    }
    for (int64_t t = 0; t < form.tokens; ++t) {
      rows.ids.push_back(t < form.tokens - form.patches() ? kLeading : kPatch);
      rows.positions.push_back(static_cast<int32_t>(t));
      rows.targets.push_back(-1);
      rows.loss_weight.push_back(0);
      rows.token_index.push_back(begins[static_cast<size_t>(image)] * form.tokens + t);
    }
    rows.end_document();
  }
  return rows;
}

/// Tokens of images, each image from its end; images without a token in between are one, but none
/// crosses documents.
struct ImageRuns {
  std::vector<int32_t> tokens, offsets{0};
  int64_t longest = 0;
};

/// `of_image`: of each token; `offsets`: borders of documents.
ImageRuns image_runs(const std::vector<int8_t>& of_image, const std::vector<int32_t>& offsets) {
  ImageRuns runs;
  const auto close = [&](size_t begin, size_t end) {
    if (begin == end) return;
    for (size_t t = end; t-- > begin;) runs.tokens.push_back(static_cast<int32_t>(t));
    runs.offsets.push_back(static_cast<int32_t>(runs.tokens.size()));
    runs.longest = std::max(runs.longest, static_cast<int64_t>(end - begin));
  };
  for (size_t d = 1; d < offsets.size(); ++d) {
    const auto first = static_cast<size_t>(offsets[d - 1]), end = static_cast<size_t>(offsets[d]);
    size_t begin = first;
    for (size_t t = first; t < end; ++t) {
      if (of_image[t] != 0) continue;
      close(begin, t);
      begin = t + 1;
    }
    close(begin, end);
  }
  return runs;
}

/// Of the rows of all `cp` context ranks.
ImageRuns image_runs(const HostBatch& batch, const ImageForm& form, int cp) {
  std::vector<int32_t> offsets = batch.document_offsets;
  for (int32_t& offset : offsets) offset *= cp;
  if (batch.dealt) return image_runs(batch.dealt->of_image, offsets);
  std::vector<int8_t> of_image(batch.ids.size());
  std::ranges::transform(batch.ids, of_image.begin(),
                         [&](int32_t id) { return static_cast<int8_t>(id == form.token); });
  return image_runs(of_image, offsets);
}

BatchImages::Ahead upload_ahead(Device& device, const HostBatch& batch, const ImageForm& form,
                                int cp) {
  // Without content each image is one by itself.
  const ImageRuns runs = batch.sizes_only ? ImageRuns() : image_runs(batch, form, cp);
  const int64_t count = batch.dealt ? batch.dealt->shown : batch.images.count,
                tokens = cp * batch.tokens();
  const int64_t rows = batch.sizes_only ? count * form.rows : std::ssize(runs.tokens),
                images = batch.sizes_only ? count : std::ssize(runs.offsets) - 1;
  const auto listed = static_cast<size_t>(batch.sizes_only ? 0 : tokens);
  std::vector<int32_t> place(listed, -1), others(listed);
  for (size_t t = 0; t < others.size(); ++t) others[t] = static_cast<int32_t>(t);
  for (size_t i = 0; i < runs.tokens.size(); ++i) {
    const auto token = static_cast<size_t>(runs.tokens[i]);
    place[token] = static_cast<int32_t>(i), others[token] = -1;
  }
  const auto list = [&](const std::vector<int32_t>& values, int64_t size) {
    return upload_values<int32_t>(device, {size}, MemoryTag::batch, Tensor(),
                                  [&](int32_t* to) { std::ranges::copy(values, to); });
  };
  BatchImages::Ahead ahead;
  ahead.tokens = list(runs.tokens, rows);
  ahead.place = list(place, tokens);
  ahead.others = list(others, tokens);
  ahead.offsets = list(runs.offsets, images + 1);
  ahead.diagonal = list(std::vector<int32_t>(static_cast<size_t>(images), -1), images);
  ahead.longest = batch.sizes_only ? (count > 0 ? form.rows : 0) : runs.longest;
  return ahead;
}

}  // namespace

ImageForm image_form(const VisionConfig& vision) {
  if (!vision.any()) return {};
  return {.channels = vision.channels,
          .side = vision.image_size,
          .patch = vision.patch_size,
          .tokens = vision.tokens(),
          .rows = vision.rows(),
          .token = static_cast<int32_t>(vision.image_token),
          .sees_ahead = vision.sees_ahead};
}

void check_images(const HostBatch& batch, const ImageForm& form) {
  if (batch.sizes_only || batch.dealt) return;
  const ImageBatch& images = batch.images;
  const auto tokens = std::ranges::count(batch.ids, form.token);
  VIADUCT_CHECK(ShapeError, tokens == images.count * form.rows,
                "batch: {} tokens of images (id {}), and {} images, which have {} each: expected "
                "{} tokens",
                tokens, form.token, images.count, form.rows, images.count * form.rows);
  if (images.empty()) return;
  VIADUCT_CHECK(
      ShapeError,
      images.channels == form.channels && images.height == form.side && images.width == form.side,
      "batch: images of {} channels and {} x {} pixels, expected {} and {} x {}", images.channels,
      images.height, images.width, form.channels, form.side, form.side);
  const int64_t values = images.count * form.channels * form.side * form.side;
  VIADUCT_CHECK(ShapeError, static_cast<int64_t>(images.pixels.size()) == values,
                "batch: {} values of pixels for {} images, expected {}", images.pixels.size(),
                images.count, values);
}

std::vector<int64_t> image_begins(const HostBatch& batch, const ImageForm& form) {
  std::vector<int64_t> begins;
  int64_t found = 0;
  for (size_t t = 0; t < batch.ids.size(); ++t)
    if (batch.ids[t] == form.token && found++ % form.rows == 0)
      begins.push_back(batch.token_index[t]);
  return begins;
}

std::vector<int32_t> feature_rows(const HostBatch& batch, const ImageForm& form) {
  std::vector<int32_t> rows(batch.ids.size(), -1);
  int32_t next = 0;
  for (size_t t = 0; t < rows.size(); ++t)
    if (batch.ids[t] == form.token) rows[t] = next++;
  return rows;
}

std::shared_ptr<const EncoderRows> upload_images(Device& device, const HostBatch& batch,
                                                 const BatchPlace& place) {
  const ImageForm& form = place.images;
  const ImageBatch& images = batch.images;
  BatchPlace tower = place;
  tower.images = {};
  tower.attention_chunk = 0;
  tower.stream_parts = 1, tower.stream_part = 0;
  tower.cp = tower.cp_inner = 1, tower.cp_rank = 0;
  auto rows = std::make_shared<EncoderRows>();
  rows->rows = upload(device, tower_rows(batch, form), kIds, form.tokens, tower);
  rows->rows.whole_stream = true;
  rows->rows.patches = upload_values<float>(
      device, {images.count * form.patches(), form.channels * form.patch * form.patch},
      MemoryTag::batch, Tensor(), [&](float* to) { cut_patches(images, form, to); });
  return rows;
}

BatchImages upload_batch_images(Device& device, const HostBatch& batch, const BatchPlace& place) {
  const ImageForm& form = place.images;
  const Shape shape{batch.tokens()};
  BatchImages places;
  places.rows = (batch.dealt ? batch.dealt->all : batch.images.count) * form.rows;
  places.ids = upload_values<int32_t>(device, shape, MemoryTag::batch, Tensor(), [&](int32_t* to) {
    std::ranges::replace_copy(batch.ids, to, form.token, -1);
  });
  places.features =
      upload_values<int32_t>(device, shape, MemoryTag::batch, Tensor(), [&](int32_t* to) {
        if (batch.dealt) {
          std::ranges::copy(batch.dealt->features, to);
          return;
        }
        std::ranges::copy(feature_rows(batch, form), to);
      });
  if (form.sees_ahead) places.ahead = upload_ahead(device, batch, form, place.cp);
  return places;
}

}  // namespace viaduct
