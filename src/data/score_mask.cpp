#include "data/score_mask.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"
#include "data/dataset_fingerprint.h"
#include "data/token_record.h"

namespace viaduct {

std::string mask_prefix(const std::string& prefix) {
  return prefix + ".mask";
}

bool has_mask(const std::string& prefix) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(mask_prefix(prefix) + ".idx", ignored);
}

void remove_mask(const std::string& prefix) {
  for (const char* ending : {".idx", ".bin"}) {
    std::error_code error;
    std::filesystem::remove(mask_prefix(prefix) + ending, error);
    VIADUCT_CHECK(IoError, !error, "{}{}: cannot remove it: {}", mask_prefix(prefix), ending,
                  error.message());
  }
}

std::string mask_files_problem(const IndexedDataset& dataset) {
  std::vector<std::string> missing;
  for (const char* ending : {".idx", ".bin"}) {
    std::string file = mask_prefix(dataset.prefix()) + ending;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) missing.push_back(std::move(file));
  }
  if (missing.empty()) return "";
  if (missing.size() == 2) {
    const auto record = read_token_record(dataset);
    if (!record || !record->conversations) return "";
  }
  const std::string why = missing.size() == 2 ? fmt::format("it holds conversations ({})",
                                                            token_record_path(dataset.prefix()))
                                              : std::string("it has a part of a mask");
  return fmt::format(
      "data set {0}: {1}, but {2} {3} not exist, so nothing says which tokens are learned; copy "
      "the "
      "mask beside {0}.bin, or make the data set again (viaduct data chat)",
      dataset.prefix(), why, fmt::join(missing, " and "), missing.size() == 1 ? "does" : "do");
}

void check_mask_files(const IndexedDataset& dataset) {
  const std::string problem = mask_files_problem(dataset);
  VIADUCT_CHECK(IoError, problem.empty(), "{}", problem);
}

MaskedDatasets masked_datasets(const DatasetConfig& config) {
  MaskedDatasets found;
  if (config.mock) return found;
  for (std::string& prefix : dataset_prefixes(config)) {
    auto& list = has_mask(prefix) ? found.with : found.without;
    list.push_back(std::move(prefix));
  }
  return found;
}

ScoreMask::ScoreMask(std::shared_ptr<const IndexedDataset> tokens,
                     std::shared_ptr<const IndexedDataset> mask, IndexCheck check)
    : tokens_(std::move(tokens)), mask_(std::move(mask)) {
  VIADUCT_CHECK(IoError, mask_->token_type() == TokenType::uint8,
                "data set {}: a mask of {}, expected uint8 (one byte for each token of {})",
                mask_->prefix(), token_type_name(mask_->token_type()), tokens_->prefix());
  VIADUCT_CHECK(IoError, mask_->sequence_count() == tokens_->sequence_count(),
                "{}.idx has {}, and its mask {}.idx has {}: they are not of the same "
                "data; make both again (viaduct data chat)",
                tokens_->prefix(), counted(tokens_->sequence_count(), "sequence"), mask_->prefix(),
                mask_->sequence_count());
  if (check == IndexCheck::on_use || tokens_->length_bytes() == mask_->length_bytes()) return;
  for (int64_t i = 0; i < tokens_->sequence_count(); ++i) check_length(i);
}

void ScoreMask::check_length(int64_t sequence) const {
  const int64_t tokens = tokens_->sequence_length(sequence),
                entries = mask_->sequence_length(sequence);
  if (tokens == entries) return;
  tokens_->check_read();
  mask_->check_read();
  fail<IoError>(
      "{}.idx: sequence {} has {}, and in its mask {}.idx {}: they are not of the "
      "same data; make both again (viaduct data chat)",
      tokens_->prefix(), sequence, counted(tokens, "token"), mask_->prefix(),
      counted(entries, "entry", "entries"));
}

void ScoreMask::read(int64_t sequence, int64_t offset, std::span<int32_t> out) const {
  check_length(sequence);
  mask_->read(sequence, offset, out);
  const auto wrong = std::ranges::find_if(out, [](int32_t entry) { return entry > 1; });
  if (wrong == out.end()) return;
  fail<IoError>("{}.bin: entry {} of sequence {} is {}, expected 0 or 1", mask_->prefix(),
                offset + (wrong - out.begin()), sequence, *wrong);
}

bool ScoreMask::any_scored(int64_t first, int64_t end) const {
  std::vector<int32_t> entries;
  for (int64_t i = first; i < end; ++i) {
    const int64_t length = tokens_->sequence_length(i);
    if (length < 2) continue;
    entries.resize(static_cast<size_t>(length) - 1);
    read(i, 1, entries);
    if (std::ranges::find(entries, 1) != entries.end()) return true;
  }
  mask_->check_read();
  return false;
}

double ScoreMask::scored_share(int64_t first, int64_t end, int64_t max_tokens) const {
  int64_t all = 0;
  for (int64_t i = first; i < end; ++i) all += tokens_->sequence_length(i);
  // Every n-th sequence.
  const int64_t stride = std::max<int64_t>(1, (all + max_tokens - 1) / max_tokens);
  int64_t tokens = 0, scored = 0;
  std::vector<int32_t> entries;
  for (int64_t i = first; i < end; i += stride) {
    const int64_t length = tokens_->sequence_length(i);
    tokens += length;
    if (length < 2) continue;
    entries.resize(static_cast<size_t>(length) - 1);
    read(i, 1, entries);
    scored += std::ranges::count(entries, 1);
  }
  mask_->check_read();
  return tokens == 0 ? 0 : static_cast<double>(scored) / static_cast<double>(tokens);
}

}  // namespace viaduct
