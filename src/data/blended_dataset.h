#pragma once
// Rows drawn from several sources by weight (Megatron's BlendedDataset).

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/index_array.h"
#include "data/sample.h"

namespace viaduct {

class BlendedDataset final : public SampleSource {
 public:
  using Sources = std::vector<std::shared_ptr<const SampleSource>>;
  /// Returns the two arrays of a blend: the source of each row, and the row's number in that
  /// source.
  using Open = std::function<std::vector<IndexArray>()>;

  /// `open` returns arrays of `size` rows. It is called in the constructor or, with `later`, at the
  /// first row.
  BlendedDataset(Sources sources, int64_t size, Open open, bool later = false);

  using SampleSource::get;
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return sources_.front()->sequence_length(); }
  int64_t encoder_length() const override { return sources_.front()->encoder_length(); }
  void get(int64_t index, Sample& sample) const override;

  const Sources& sources() const { return sources_; }
  const IndexArray& dataset_index() const { return arrays().at(0); }
  const IndexArray& dataset_sample_index() const { return arrays().at(1); }

 private:
  const std::vector<IndexArray>& arrays() const;

  Sources sources_;
  int64_t size_;
  Open open_;
  mutable std::once_flag opened_;
  mutable std::vector<IndexArray> arrays_;
};

/// ConfigError if the blend takes more of a source than it has. `names` are for the message.
void check_blend(const BlendIndex& index, const BlendedDataset::Sources& sources,
                 const std::vector<std::string>& names);

/// Writes the arrays of a blend.
void write_blend_index(const BlendIndex& index, IndexSink& sink);
/// Their shapes.
std::vector<IndexShape> blend_shapes(int64_t size);

}  // namespace viaduct
