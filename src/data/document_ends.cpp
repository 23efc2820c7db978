#include "data/document_ends.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "data/dataset_builder.h"
#include "data/dataset_fingerprint.h"
#include "data/indexed_dataset.h"
#include "data/score_mask.h"
#include "data/token_record.h"

namespace viaduct {
namespace {

constexpr const char* kWhatEnds =
    "dataset.reset_attention_mask, reset_position_ids and eod_mask_loss";

/// Separators of a data set that do not end a sequence, and whether one does.
struct Separators {
  int64_t count = 0, sequences = 0;  // in how many sequences
  int64_t first = -1;                // the first of them
  int64_t looked_at = 0;             // sequences, the last of them perhaps only in part
  int64_t whole = 0, ended = 0;      // of which it ends
};

Separators find_separators(const IndexedDataset& dataset, int64_t separator, int64_t max_tokens) {
  Separators found;
  std::vector<int32_t> tokens;
  const int64_t sequences = dataset.sequence_count();
  for (int64_t sequence = 0; sequence < sequences && max_tokens > 0; ++sequence) {
    const int64_t whole = dataset.sequence_length(sequence);
    const int64_t length = std::min(whole, max_tokens);
    max_tokens -= length;
    ++found.looked_at;
    if (length == 0) continue;
    tokens.resize(static_cast<size_t>(length));
    dataset.read(sequence, 0, std::span<int32_t>(tokens));
    if (length == whole) {
      ++found.whole;
      if (tokens.back() == separator) ++found.ended;
    }
    tokens.pop_back();
    const auto inside = std::count(tokens.begin(), tokens.end(), separator);
    if (inside == 0) continue;
    if (found.first < 0) found.first = sequence;
    found.count += inside;
    ++found.sequences;
  }
  return found;
}

std::string inner_text(const Separators& found) {
  return fmt::format("{} of the first {} {} it inside, {} (first: document {})", found.sequences,
                     counted(found.looked_at, "document"), found.sequences == 1 ? "holds" : "hold",
                     counted(found.count, "time"), found.first);
}

}  // namespace

bool needs_document_ends(const DatasetConfig& config) {
  return config.reset_position_ids || config.reset_attention_mask || config.eod_mask_loss;
}

std::optional<int64_t> recorded_separator(const DatasetConfig& config) {
  std::optional<int64_t> separator;
  std::string of;
  for (const std::string& prefix : dataset_prefixes(config)) {
    std::optional<TokenRecord> record;
    try {
      record = read_token_record(IndexedDataset(prefix, IndexCheck::on_use));
    } catch (const IoError&) {
      continue;
    }
    if (!record || record->separator.value_or(-1) < 0) continue;
    VIADUCT_CHECK(ConfigError, !separator || separator == record->separator,
                  "dataset.blend: documents of {} end with token {}, those of {} with {}; expected "
                  "data sets that are tokenized alike (viaduct data tokenize --eod-token), or "
                  "dataset.eod_id",
                  of, separator.value_or(0), prefix, record->separator.value_or(0));
    separator = record->separator;
    of = prefix;
  }
  return separator;
}

std::vector<std::string> separator_warnings(DatasetBuilder& builder, int64_t max_tokens) {
  const DatasetConfig& config = builder.config();
  if (config.mock || !config.eod_id || !needs_document_ends(config)) return {};
  const int64_t separator = *config.eod_id;
  std::vector<std::string> warnings;
  for (const std::string& prefix : dataset_prefixes(config)) {
    if (has_mask(prefix)) continue;  // a conversation is a document, whatever it ends with
    const auto dataset = builder.open(prefix);
    const auto record = read_token_record(*dataset);
    if (record && record->separator == -1) {
      warnings.push_back(
          fmt::format("dataset {}: its documents end with no token (viaduct data tokenize "
                      "--no-append-eod), so {} find no borders between them",
                      prefix, kWhatEnds));
    } else if (record && record->separator && record->separator != separator) {
      warnings.push_back(
          fmt::format("dataset {}: its documents end with token {}, and {} look for "
                      "dataset.eod_id = {}",
                      prefix, *record->separator, kWhatEnds, separator));
    }
    std::string inside;
    if (record && record->separator == separator) {
      if (record->inner_separators > 0)
        inside = fmt::format("its documents hold {} more of it inside", record->inner_separators);
    } else {
      const Separators found = find_separators(*dataset, separator, max_tokens);
      if (found.count > 0) {
        inside = inner_text(found);
      } else if (found.whole > 0 && found.ended == 0 && (!record || !record->separator)) {
        warnings.push_back(fmt::format(
            "dataset {}: none of its first {} ends with dataset.eod_id = {}, so {} find no borders "
            "between them",
            prefix, counted(found.whole, "document"), separator, kWhatEnds));
      }
    }
    if (inside.empty()) continue;
    warnings.push_back(fmt::format(
        "dataset {}: rows have more ends than documents: dataset.eod_id = {} ends documents, and "
        "{}; {} stop there too. Expected a token that ends documents alone (viaduct data tokenize "
        "--eod-token), not one that ends the turns of a conversation",
        prefix, separator, inside, kWhatEnds));
  }
  return warnings;
}

}  // namespace viaduct
