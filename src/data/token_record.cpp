#include "data/token_record.h"

#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "data/dataset_fingerprint.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

/// Identifies a data set at a cost that does not depend on its size.
ordered_json identity(const IndexedDataset& dataset) {
  return {{"sequences", dataset.sequence_count()},
          {"bytes", dataset.token_bytes().size()},
          {"sample_hash", fmt::format("{:016x}", token_sample_hash(dataset))}};
}

std::string hash_hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

/// Nothing for what is no hash.
std::optional<uint64_t> read_hash(const ordered_json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, hash, 16).ptr != end || text.empty()) return std::nullopt;
  return hash;
}

/// A text, null where no template was used, or a list of these where there are several.
ordered_json templates_json(const ConversationRecord& record) {
  ordered_json all = ordered_json::array();
  for (const auto& hash : record.chat_templates)
    all.push_back(hash ? ordered_json(hash_hex(*hash)) : ordered_json(nullptr));
  return all.size() == 1 ? all.front() : all;
}

std::vector<std::optional<uint64_t>> read_templates(const ordered_json& value) {
  if (!value.is_array() || value.empty()) return {read_hash(value)};
  std::vector<std::optional<uint64_t>> all;
  for (const ordered_json& hash : value) all.push_back(read_hash(hash));
  return all;
}

ordered_json conversations_json(const ConversationRecord& record) {
  ordered_json json{
      {"train_on", record.train_on},
      {"tokenizer_hash", hash_hex(record.tokenizer)},
      {"template_hash", templates_json(record)},
      {"user_control_tokens", record.control_tokens_as_text ? "as-text" : "recognised"},
      {"scored_tokens", record.scored},
      {"rows_of_one_answer", record.own_rows}};
  if (record.images > 0) json["places_of_pictures"] = record.images;
  return json;
}

std::optional<ConversationRecord> read_conversations(const ordered_json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto text = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto count = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() ? json_count(*found).value_or(0) : 0;
  };
  ConversationRecord record;
  record.train_on = text("train_on");
  const auto tokenizer =
      json.contains("tokenizer_hash") ? read_hash(json["tokenizer_hash"]) : std::nullopt;
  if (record.train_on.empty() || !tokenizer) return std::nullopt;
  record.tokenizer = *tokenizer;
  if (json.contains("template_hash")) record.chat_templates = read_templates(json["template_hash"]);
  record.control_tokens_as_text = text("user_control_tokens") == "as-text";
  record.scored = count("scored_tokens");
  record.own_rows = count("rows_of_one_answer");
  record.images = count("places_of_pictures");
  return record;
}

}  // namespace

std::string template_hashes_text(const ConversationRecord& record) {
  std::vector<std::string> names;
  for (const auto& hash : record.chat_templates) names.push_back(hash ? hash_hex(*hash) : "none");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string token_record_path(const std::string& prefix) {
  return prefix + ".tokens.json";
}

void write_token_record(const std::filesystem::path& prefix, const TokenRecord& record) {
  const IndexedDataset dataset(prefix, IndexCheck::on_use);
  ordered_json json{{"largest_token_id", record.largest_token}};
  if (record.vocabulary) json["vocabulary_hash"] = hash_hex(*record.vocabulary);
  if (record.separator) {
    json["separator"] =
        *record.separator < 0 ? ordered_json(nullptr) : ordered_json(*record.separator);
    json["separators_inside"] = record.inner_separators;
  }
  if (record.conversations) json["conversations"] = conversations_json(*record.conversations);
  json["data"] = identity(dataset);
  write_file_atomically(token_record_path(dataset.prefix()), json.dump(2) + "\n");
}

std::optional<TokenRecord> read_token_record(const IndexedDataset& dataset) {
  const std::string path = token_record_path(dataset.prefix());
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  const auto read = try_parse_json<ordered_json>(read_file(path, 1 << 20));
  if (!read) return std::nullopt;
  const ordered_json& record = *read;
  if (!record.is_object() || !record.contains("largest_token_id") || !record.contains("data"))
    return std::nullopt;
  const auto& largest = record["largest_token_id"];
  if (!largest.is_number_integer() || record["data"] != identity(dataset)) return std::nullopt;
  TokenRecord result;
  result.largest_token = largest.get<int64_t>();
  if (const auto separator = record.find("separator"); separator != record.end()) {
    const auto inside = record.find("separators_inside");
    if (inside == record.end() || !inside->is_number_integer()) return std::nullopt;
    if (!separator->is_null() && !separator->is_number_integer()) return std::nullopt;
    result.separator = separator->is_null() ? -1 : separator->get<int64_t>();
    result.inner_separators = inside->get<int64_t>();
  }
  if (const auto hash = record.find("vocabulary_hash"); hash != record.end()) {
    result.vocabulary = read_hash(*hash);
    if (!result.vocabulary) return std::nullopt;
  }
  if (const auto chat = record.find("conversations"); chat != record.end()) {
    result.conversations = read_conversations(*chat);
    if (!result.conversations) return std::nullopt;
  }
  return result;
}

}  // namespace viaduct
