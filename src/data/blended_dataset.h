#pragma once
// Rows drawn from several sources by weight (Megatron's BlendedDataset).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/sample.h"

namespace viaduct {

class BlendedDataset final : public SampleSource {
 public:
  /// `names` of the sources are for messages. ConfigError if the index takes more of a source than
  /// it has.
  BlendedDataset(std::vector<std::shared_ptr<const SampleSource>> sources,
                 std::vector<std::string> names, BlendIndex index);

  using SampleSource::get;
  int64_t size() const override { return static_cast<int64_t>(index_.dataset_index.size()); }
  int64_t sequence_length() const override { return sources_.front()->sequence_length(); }
  void get(int64_t index, Sample& sample) const override;

  const std::vector<std::shared_ptr<const SampleSource>>& sources() const { return sources_; }
  const BlendIndex& index() const { return index_; }

 private:
  std::vector<std::shared_ptr<const SampleSource>> sources_;
  BlendIndex index_;
};

}  // namespace viaduct
