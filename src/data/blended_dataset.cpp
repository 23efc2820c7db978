#include "data/blended_dataset.h"

#include "base/error.h"

namespace viaduct {

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const SampleSource>> sources,
                               std::vector<std::string> names, BlendIndex index)
    : sources_(std::move(sources)), index_(std::move(index)) {
  std::vector<int64_t> taken(sources_.size());
  for (const int16_t source : index_.dataset_index) ++taken[static_cast<size_t>(source)];
  for (size_t i = 0; i < sources_.size(); ++i) {
    VIADUCT_CHECK(
        ConfigError, taken[i] <= sources_[i]->size(),
        "the blend takes {} samples of {}, which has {}; raise dataset.mid_level_dataset_surplus",
        taken[i], names[i], sources_[i]->size());
  }
}

void BlendedDataset::get(int64_t index, Sample& sample) const {
  VIADUCT_CHECK(ShapeError, index >= 0 && index < size(), "blend: sample {} of {}", index, size());
  const size_t at = static_cast<size_t>(index);
  sources_[static_cast<size_t>(index_.dataset_index[at])]->get(index_.dataset_sample_index[at],
                                                               sample);
}

}  // namespace viaduct
