#include "data/dataset_fingerprint.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "data/blend.h"

namespace viaduct {
namespace {

constexpr size_t kPieces = 256, kPieceBytes = 4096;

uint64_t hash_of_samples(std::span<const std::byte> bytes) {
  Hasher64 hasher;
  if (bytes.size() <= kPieces * kPieceBytes) {
    hasher.update(bytes.data(), bytes.size());
    return hasher.digest();
  }
  const size_t last = bytes.size() - kPieceBytes;  // where the last piece begins
  for (size_t i = 0; i < kPieces; ++i) {
    // last · i / (kPieces − 1), without overflow.
    const size_t at = last / (kPieces - 1) * i + last % (kPieces - 1) * i / (kPieces - 1);
    hasher.update(bytes.data() + at, kPieceBytes);
  }
  return hasher.digest();
}

uint64_t hash_from_text(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  VIADUCT_CHECK(IoError, error == std::errc() && end == text.data() + text.size(),
                "\"{}\" is no hash", text);
  return value;
}

}  // namespace

uint64_t token_sample_hash(const IndexedDataset& dataset) {
  return hash_of_samples(dataset.token_bytes());
}

DatasetFingerprint fingerprint(const IndexedDataset& dataset) {
  const std::span<const std::byte> index = dataset.index_bytes();
  return {dataset.prefix(),
          dataset.document_count(),
          dataset.sequence_count(),
          dataset.total_tokens(),
          hash64({reinterpret_cast<const char*>(index.data()), index.size()}),
          token_sample_hash(dataset)};
}

std::vector<std::string> dataset_prefixes(const DatasetConfig& config) {
  std::vector<std::string> prefixes;
  const auto add = [&](const std::vector<std::string>& entries) {
    for (const std::string& prefix : parse_blend(entries).prefixes) {
      if (std::find(prefixes.begin(), prefixes.end(), prefix) == prefixes.end())
        prefixes.push_back(prefix);
    }
  };
  if (config.blend) add(*config.blend);
  if (config.blend_per_split) {
    for (const auto& entries : *config.blend_per_split)
      if (entries) add(*entries);
  }
  return prefixes;
}

std::string to_json(const std::vector<DatasetFingerprint>& files) {
  auto list = nlohmann::ordered_json::array();
  for (const DatasetFingerprint& file : files) {
    list.push_back({{"prefix", file.prefix},
                    {"documents", file.documents},
                    {"sequences", file.sequences},
                    {"tokens", file.tokens},
                    {"index_hash", fmt::format("{:016x}", file.index_hash)},
                    {"sample_hash", fmt::format("{:016x}", file.sample_hash)}});
  }
  const nlohmann::ordered_json document{{"files", list}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<DatasetFingerprint> fingerprints_from_json(const std::string& text,
                                                       const std::string& where) {
  std::vector<DatasetFingerprint> files;
  try {
    const auto document = parse_json<nlohmann::json>(text, where);
    for (const auto& entry : document.at("files")) {
      files.push_back({entry.at("prefix").get<std::string>(), entry.at("documents").get<int64_t>(),
                       entry.at("sequences").get<int64_t>(), entry.at("tokens").get<int64_t>(),
                       hash_from_text(entry.at("index_hash").get<std::string>()),
                       hash_from_text(entry.at("sample_hash").get<std::string>())});
    }
  } catch (const nlohmann::json::exception& error) {
    fail<IoError>("{}: {}", where, error.what());
  }
  return files;
}

std::vector<std::string> changed_data(const std::vector<DatasetFingerprint>& before,
                                      const std::vector<DatasetFingerprint>& now) {
  std::vector<std::string> changes;
  if (before.size() != now.size()) {
    changes.push_back(
        fmt::format("{} then, {} now", counted(std::ssize(before), "file"), now.size()));
    return changes;
  }
  for (size_t i = 0; i < now.size(); ++i) {
    const DatasetFingerprint &old = before[i], &file = now[i];
    if (old.documents != file.documents || old.sequences != file.sequences ||
        old.tokens != file.tokens) {
      changes.push_back(fmt::format(
          "{}: {}, {}, {} then, {}, {}, {} now", file.prefix, counted(old.tokens, "token"),
          counted(old.sequences, "sequence"), counted(old.documents, "document"), file.tokens,
          file.sequences, file.documents));
    } else if (old.index_hash != file.index_hash) {
      changes.push_back(
          fmt::format("{}.idx: the same number of entries, but different ones", file.prefix));
    } else if (old.sample_hash != file.sample_hash) {
      changes.push_back(
          fmt::format("{}.bin: the same number of tokens, but different ones", file.prefix));
    }
  }
  return changes;
}

}  // namespace viaduct
