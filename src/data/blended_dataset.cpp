#include "data/blended_dataset.h"

#include "base/error.h"

namespace viaduct {

BlendedDataset::BlendedDataset(Sources sources, int64_t size, Open open, bool later)
    : sources_(std::move(sources)), size_(size), open_(std::move(open)) {
  if (!later) arrays();
}

const std::vector<IndexArray>& BlendedDataset::arrays() const {
  std::call_once(opened_, [&] {
    std::vector<IndexArray> arrays = open_();
    VIADUCT_CHECK(IoError,
                  arrays.size() == 2 && arrays[0].size() == size_ && arrays[1].size() == size_,
                  "the cached index of a blend does not have the expected {} rows", size_);
    arrays_ = std::move(arrays);
  });
  return arrays_;
}

void BlendedDataset::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "blend: sample {} of {}", index, size());
  const auto& arrays = this->arrays();
  const int64_t source = arrays[0][index], row = arrays[1][index];
  for (const IndexArray& array : arrays) array.check_read();
  const auto count = static_cast<int64_t>(sources_.size());
  VIADUCT_CHECK(IoError, source >= 0 && source < count,
                "the cached index of a blend names data set {} of {}", source, count);
  sources_[static_cast<size_t>(source)]->get(row, sample);
}

void check_blend(const BlendIndex& index, const BlendedDataset::Sources& sources,
                 const std::vector<std::string>& names) {
  std::vector<int64_t> taken(sources.size());
  for (const int16_t source : index.dataset_index) ++taken[static_cast<size_t>(source)];
  for (size_t i = 0; i < sources.size(); ++i) {
    VIADUCT_CHECK(
        ConfigError, taken[i] <= sources[i]->size(),
        "the blend takes {} samples of {}, which has {}; raise dataset.mid_level_dataset_surplus",
        taken[i], names[i], sources[i]->size());
  }
}

void write_blend_index(const BlendIndex& index, IndexSink& sink) {
  const auto shapes = blend_shapes(static_cast<int64_t>(index.dataset_index.size()));
  sink.begin(shapes[0]);
  sink.write(index.dataset_index.data(), index.dataset_index.size() * sizeof(int16_t));
  sink.begin(shapes[1]);
  sink.write(index.dataset_sample_index.data(),
             index.dataset_sample_index.size() * sizeof(int64_t));
}

std::vector<IndexShape> blend_shapes(int64_t size) {
  return {{IndexType::int16, size, 0}, {IndexType::int64, size, 0}};
}

}  // namespace viaduct
