#pragma once
// What a checkpoint remembers of the data that a run reads: enough to notice, when the run goes on,
// that a file is another one.

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

/// Reads the index, and of the tokens at most 1 MiB.
DatasetFingerprint fingerprint(const IndexedDataset& dataset);

/// hash64 of pieces of the .bin, evenly spread, at most 1 MiB.
uint64_t token_sample_hash(const IndexedDataset& dataset);

/// The prefixes of `blend` and `blend_per_split` in their order, each once.
std::vector<std::string> dataset_prefixes(const DatasetConfig& config);

/// As the text of a file, and back; IoError naming `where` for text that is no such file.
std::string to_json(const std::vector<DatasetFingerprint>& files);
std::vector<DatasetFingerprint> fingerprints_from_json(const std::string& text,
                                                       const std::string& where);

/// What is another file now than it was when `before` was written, one line each; files are
/// compared in their order, so that they may move.
std::vector<std::string> changed_data(const std::vector<DatasetFingerprint>& before,
                                      const std::vector<DatasetFingerprint>& now);

}  // namespace viaduct
