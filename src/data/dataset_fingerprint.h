#pragma once
// Fingerprints of a run's data files, stored in checkpoints: enough to detect on resumption that a
// file has changed.

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset_config.h"
#include "data/indexed_dataset.h"

namespace viaduct {

struct DatasetFingerprint {
  std::string prefix;  // as the configuration names it
  int64_t documents = 0, sequences = 0, tokens = 0;
  uint64_t index_hash = 0;   // hash64 of the whole .idx
  uint64_t sample_hash = 0;  // hash64 of pieces of the .bin, evenly spread, its ends among them

  bool operator==(const DatasetFingerprint&) const = default;
};

/// Reads the index and at most 1 MiB of the tokens.
DatasetFingerprint fingerprint(const IndexedDataset& dataset);

/// hash64 of pieces of the .bin, evenly spread, at most 1 MiB.
uint64_t token_sample_hash(const IndexedDataset& dataset);

/// The distinct prefixes of `blend` and `blend_per_split`, in order.
std::vector<std::string> dataset_prefixes(const DatasetConfig& config);

/// Conversion to the text of a file and back; IoError naming `where` for malformed text.
std::string to_json(const std::vector<DatasetFingerprint>& files);
std::vector<DatasetFingerprint> fingerprints_from_json(const std::string& text,
                                                       const std::string& where);

/// The files that changed since `before` was written, one line each. Files are compared by
/// position, so they may be moved.
std::vector<std::string> changed_data(const std::vector<DatasetFingerprint>& before,
                                      const std::vector<DatasetFingerprint>& now);

}  // namespace viaduct
