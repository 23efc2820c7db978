#pragma once
// Random rows with an image each, for models that read images.

#include "data/image_row_settings.h"
#include "data/mock_dataset.h"

namespace viaduct {

/// A row of MockDataset that begins with an image of random pixels, whose tokens are not scored;
/// rows that are too short for one have none. The image's token stands nowhere else.
class MockImageDataset final : public SampleSource {
 public:
  MockImageDataset(int64_t size, int64_t vocabulary_size, uint64_t seed,
                   const RowSettings& settings, const ImageRowSettings& images);

  using SampleSource::get;
  int64_t size() const override { return rows_.size(); }
  int64_t sequence_length() const override { return rows_.sequence_length(); }
  void get(int64_t index, Sample& sample) const override;

 private:
  MockDataset rows_;
  ImageRowSettings images_;
  uint64_t seed_;
  int32_t other_;  // in place of the image's token
};

}  // namespace viaduct
