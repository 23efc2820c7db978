#pragma once
// What a parameter store knows of each of its parameters: where its memory is, and how far its
// gradient of the step is. The parameters of a chunk are divided among buffers, one for each (grid,
// format), and the elements of a buffer among buckets, which are sent and gathered as one.

#include <cstdint>
#include <memory>
#include <vector>

#include "precision/recipe.h"
#include "sharding/offloaded_blocks.h"
#include "sharding/parameter_buffer.h"
#include "sharding/parameter_index.h"
#include "sharding/parameter_use.h"
#include "sharding/store_settings.h"

namespace viaduct {

struct ParameterEntry {
  // What each use of a weight reads comes first, on neighbouring cache lines.
  const Parameter* parameter = nullptr;
  size_t place = 0;   // among the parameters in order of first use
  size_t bucket = 0;  // among the buckets
  int acquired = 0;
  Tensor weight, gradient;       // whole; undefined where this rank has shards
  size_t buffer = 0, index = 0;  // among the buffers, and among the buffer's parameters
  int layer = 0;                 // of its chunk (ParameterUse); -1: several layers use it
  int run = -1;                  // of the store's runs; -1: this rank updates none of it
  int uses = 0;                  // contributions of one backward
  int64_t contributions = 0, expected = -1;  // in this step; -1: not known
  bool open = false;                         // a contribution is being written
  Tensor contribution;   // while open: what is written, if main gradients are narrower
  Tensor accumulation;   // FP32 sum over micro-batches, if main gradients are narrower
  bool rounded = false;  // `accumulation` was rounded to `gradient` in this step

  /// What ops write gradients to.
  const Tensor& accumulated() const { return accumulation ? accumulation : gradient; }
};

/// A bucket of a buffer.
struct ParameterBucket {
  size_t buffer = 0, bucket = 0;    // among the buffers, and among the buffer's buckets
  size_t chunk = 0, first_use = 0;  // first_use: of its parameters, among those of all chunks
  std::vector<const Parameter*> parameters = {};  // all trained, or all frozen
};

class ParameterEntries {
 public:
  /// Allocates the memory of the parameters of `chunks` (as ParameterStore); nothing is
  /// initialized. `blocks`: of the second memory, if anything is offloaded.
  ParameterEntries(Device& device, const PrecisionRecipe& recipe,
                   const std::vector<std::vector<ParameterUse>>& chunks,
                   const StoreSettings& settings, const ParallelGroups& groups,
                   OffloadedBlocks* blocks);
  ParameterEntries(const ParameterEntries&) = delete;
  ParameterEntries& operator=(const ParameterEntries&) = delete;

  /// ShapeError for a parameter of another rank.
  const ParameterEntry& at(const Parameter& parameter) const;
  ParameterEntry& at(const Parameter& parameter);
  /// In order of first use.
  std::vector<ParameterEntry>& all() { return entries_; }

  /// Every parameter once, in order of first use.
  const std::vector<const Parameter*>& parameters() const { return parameters_; }
  /// Chunk by chunk.
  const std::vector<ParameterBuffer>& buffers() const { return buffers_; }
  const ParameterBuffer& buffer_of(const ParameterBucket& bucket) const {
    return buffers_[bucket.buffer];
  }
  /// In the order in which gradients are sent: last chunk first, and within a chunk the parameters
  /// that the forward uses last.
  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  const ParameterBucket& bucket_of(const Parameter& parameter) const {
    return buckets_[at(parameter).bucket];
  }
  size_t chunks() const { return chunks_; }
  /// The number of buckets of the first `chunks` chunks, which are gathered first.
  size_t buckets_of_first(size_t chunks) const;
  /// Whether a layer has one of the bucket's weights.
  bool in_use(const ParameterBucket& bucket) const;

  /// Whether the weight is stored as codes: where there are masters to write them from.
  bool stores_codes(const Parameter& parameter) const;
  /// Whether the 16-bit weight exists only from the first use after an update until products' forms
  /// of it are made, in the memory of its gradients.
  bool passes_gradients(const Parameter& parameter) const;

 private:
  BufferFormats formats_of(const Parameter& parameter) const;
  /// The next one.
  void add_chunk(const std::vector<std::vector<ParameterUse>>& chunks);
  /// `layers`: for each parameter the only layer that uses it, or −1 if several do, of any chunk.
  void add_buffer(size_t chunk, std::vector<const Parameter*> parameters,
                  const std::vector<int>& layers);
  void list_buckets();

  Device& device_;
  PrecisionRecipe recipe_;
  StoreSettings settings_;
  ParallelGroups groups_;
  OffloadedBlocks* blocks_;
  std::shared_ptr<Communicator> alone_;  // of frozen parameters
  size_t chunks_ = 0;
  std::vector<const Parameter*> parameters_;
  std::vector<ParameterBuffer> buffers_;
  std::vector<ParameterBucket> buckets_;
  // In order of first use, which does not depend on addresses: records have their releases.
  std::vector<ParameterEntry> entries_;
  ParameterIndex places_;  // in `entries_`
};

}  // namespace viaduct
