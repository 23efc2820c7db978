#include "plan/model_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "plan/model_catalog_data.h"

namespace viaduct {
namespace {

/// The fields of a line; only the last one, the source, may hold commas, so it is cut off.
std::vector<std::string> fields_of(std::string_view line, size_t count) {
  std::vector<std::string> fields;
  while (fields.size() < count) {
    const size_t comma = line.find(',');
    fields.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  fields.resize(count);
  return fields;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> rows() {
  std::vector<Row> all;
  std::vector<std::string> columns;
  for (std::string_view text = kModelsCsv; !text.empty();) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    if (columns.empty()) {
      columns = fields_of(line, 18);
      continue;
    }
    const std::vector<std::string> fields = fields_of(line, columns.size());
    Row row;
    for (size_t i = 0; i < columns.size(); ++i) row[columns[i]] = fields[i];
    all.push_back(std::move(row));
  }
  return all;
}

/// Why the table does not say enough about a model; empty if it does.
std::string missing_in(Row row) {
  const std::string shared = row["shared_expert_ffn"];
  if (!row["experts"].empty() && !shared.empty() && shared != "0") return "shared experts";
  const std::string attention = row["attention"];
  if (attention != "MHA" && attention != "GQA" && attention != "MQA")
    return "attention of kind " + attention;
  if (row["gated"] != "1" && !row["kv_heads"].empty() && row["kv_heads"] != row["heads"])
    return "key-value heads shared by heads beside a feed-forward without gate";
  return {};
}

std::string family_of(Row row) {
  if (row["gated"] != "1") return "gpt2";
  if (row["experts"].empty()) return "llama";
  return row["model"].starts_with("qwen3") ? "qwen3_moe" : "mixtral";
}

}  // namespace

std::vector<std::string> catalog_models() {
  std::vector<std::string> names;
  for (const Row& row : rows())
    if (missing_in(row).empty()) names.push_back(row.at("model"));
  return names;
}

std::vector<std::string> catalog_model(const std::string& name) {
  for (Row row : rows()) {
    if (row["model"] != name) continue;
    const std::string missing = missing_in(row);
    VIADUCT_CHECK(ConfigError, missing.empty(),
                  "model {}: has {}, which the table of models does not describe; give its Hugging "
                  "Face config.json or a training configuration instead",
                  name, missing);
    std::vector<std::string> overrides{"model.family=" + family_of(row), "model.hidden_dropout=0",
                                       "model.attention_dropout=0"};
    const auto add = [&](const char* field, const char* column) {
      if (!row[column].empty()) overrides.push_back(fmt::format("model.{}={}", field, row[column]));
    };
    add("num_layers", "layers"), add("hidden_size", "hidden");
    add("ffn_hidden_size", "ffn_hidden"), add("num_attention_heads", "heads");
    // The GPT-2 family has as many key-value heads as heads.
    if (row["gated"] == "1") add("num_query_groups", "kv_heads"), add("kv_channels", "head_dim");
    add("vocab_size", "vocab");
    add("num_moe_experts", "experts"), add("moe_router_topk", "topk");
    add("moe_ffn_hidden_size", "moe_ffn");
    overrides.push_back(fmt::format("model.share_embeddings_and_output_weights={}",
                                    row["tied_embeddings"] == "yes"));
    return overrides;
  }
  const auto nearest = nearest_name(name, catalog_models());
  fail<ConfigError>(
      "unknown model {}{}; expected a training configuration (.yaml), a Hugging Face folder or "
      "config.json, or one of {}",
      name, nearest ? ", did you mean " + *nearest + "?" : "", fmt::join(catalog_models(), ", "));
}

}  // namespace viaduct
