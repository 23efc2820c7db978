#pragma once
// The mask of a data set of conversations: PREFIX.mask.bin/.idx beside PREFIX.bin/.idx, an indexed
// file of uint8 with one entry for each token, 1 where it is scored. `viaduct data chat` writes it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset_config.h"
#include "data/indexed_dataset.h"

namespace viaduct {

/// PREFIX.mask.
std::string mask_prefix(const std::string& prefix);

/// Whether PREFIX.mask.idx exists.
bool has_mask(const std::string& prefix);

/// Removes the mask of a data set that is written anew without one.
void remove_mask(const std::string& prefix);

/// What is wrong with the files of the mask of a data set: there is one of the two, or none though
/// the record (token_record.h) says that the data set holds conversations. "": nothing.
std::string mask_files_problem(const IndexedDataset& dataset);

/// IoError with that, where there is something.
void check_mask_files(const IndexedDataset& dataset);

/// The data sets of the configuration, and those of them that have a mask.
struct MaskedDatasets {
  std::vector<std::string> with, without;
};
MaskedDatasets masked_datasets(const DatasetConfig& config);

class ScoreMask {
 public:
  /// IoError naming both files if `mask` is not of uint8, or has other sequences than `tokens`.
  /// `check`: whether all lengths are compared now, or each when it is read.
  ScoreMask(std::shared_ptr<const IndexedDataset> tokens,
            std::shared_ptr<const IndexedDataset> mask, IndexCheck check = IndexCheck::at_once);

  /// Entries [offset, offset + out.size()) of a sequence. IoError for one that is neither 0 nor 1.
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const;
  /// The share of tokens of sequences [first, end) that are scored, of at most `max_tokens` of
  /// them, evenly spread. The first token of a sequence never is.
  double scored_share(int64_t first, int64_t end, int64_t max_tokens = int64_t{1} << 24) const;

  /// Whether any token of these sequences is scored, the first of each left aside. Reads them in
  /// order up to the first one that is.
  bool any_scored(int64_t first, int64_t end) const;

 private:
  void check_length(int64_t sequence) const;

  std::shared_ptr<const IndexedDataset> tokens_, mask_;
};

}  // namespace viaduct
