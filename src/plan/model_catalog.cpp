#include "plan/model_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/csv.h"
#include "base/error.h"
#include "base/nearest.h"
#include "plan/model_catalog_data.h"

namespace viaduct {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> rows() {
  const CsvTable table = parse_csv(kModelsCsv, "table of models");
  std::vector<Row> all;
  for (const CsvRow& csv : table.rows) {
    Row row;
    for (const std::string& column : table.columns) row[column] = table.cell(csv, column);
    all.push_back(std::move(row));
  }
  return all;
}

bool has_windows(Row& row) {
  return row["attention"] == "GQA, alternate sliding window 128";
}

/// Llama 4: chunks, layers without rotary positions and experts' weights are what `auto` means.
bool has_chunks(const Row& row) {
  return row.at("attention").starts_with("GQA, chunked local");
}

/// Why the table does not describe a model sufficiently; empty if it does.
std::string missing_in(Row row) {
  const std::string attention = row["attention"];
  const bool plain = attention == "MHA" || attention == "GQA" || attention == "MQA";
  if (!plain && attention != "MLA" && !has_windows(row) && !has_chunks(row))
    return "attention of kind " + attention;
  for (const char* column : {"layers", "hidden", "heads", "vocab"})
    if (row[column].empty()) return fmt::format("no entry for {}", column);
  const std::string shared = row["shared_expert_ffn"];
  const bool shares = !row["experts"].empty() && !shared.empty() && shared != "0";
  if (shares && attention != "MLA" && !has_chunks(row))
    return "shared experts beside attention of kind " + attention;
  return {};
}

std::string family_of(Row row) {
  if (row["attention"] == "MLA")
    return row["model"].starts_with("deepseek-v2") ? "deepseek_v2" : "deepseek_v3";
  if (has_windows(row)) return "gpt_oss";
  if (has_chunks(row)) return "llama4_text";
  if (row["model"].starts_with("nemotron")) return "nemotron";
  if (row["gated"] != "1") return "gpt2";
  if (row["experts"].empty()) return "llama";
  return row["model"].starts_with("qwen3") ? "qwen3_moe" : "mixtral";
}

/// The window of every second layer, the first one included.
void add_windows(Row row, std::vector<std::string>& overrides) {
  const std::string attention = row["attention"];
  overrides.push_back("model.window_size=" + attention.substr(attention.rfind(' ') + 1));
  std::string which;
  for (int layer = 0; layer < std::stoi(row["layers"]); ++layer)
    which += fmt::format("{}{}", layer == 0 ? "" : ", ", layer % 2 == 0 ? 1 : 0);
  overrides.push_back(fmt::format("model.window_layers=[{}]", which));
}

/// Latent attention, and which layers have experts.
void add_latent(Row row, std::vector<std::string>& overrides) {
  const auto add = [&](const char* field, const std::string& value) {
    overrides.push_back(fmt::format("model.{}={}", field, value));
  };
  const std::string rank = row["mla_q_lora"];
  add("q_lora_rank", rank.empty() || rank == "0" ? "null" : rank);
  add("kv_lora_rank", row["mla_kv_lora"]), add("qk_head_dim", row["mla_qk_nope"]);
  add("qk_pos_emb_head_dim", row["mla_qk_rope"]), add("v_head_dim", row["mla_v_dim"]);
  add("moe_shared_expert_intermediate_size", row["shared_expert_ffn"]);
  const int layers = std::stoi(row["layers"]), dense = std::stoi("0" + row["first_dense_layers"]);
  std::string which;
  for (int layer = 0; layer < layers; ++layer)
    which += fmt::format("{}{}", layer == 0 ? "" : ", ", layer < dense ? 0 : 1);
  add("moe_layer_freq", "[" + which + "]");
  // Of the models of this table only DeepSeek's choose experts by several groups.
  if (row["model"].starts_with("deepseek")) return;
  add("moe_router_num_groups", "1"), add("moe_router_group_topk", "1");
}

}  // namespace

std::vector<std::string> catalog_models() {
  std::vector<std::string> names;
  for (Row row : rows())
    if (missing_in(row).empty()) names.push_back(row.at("model"));
  return names;
}

std::vector<std::string> catalog_model(const std::string& name) {
  for (Row row : rows()) {
    if (row["model"] != name) continue;
    const std::string missing = missing_in(row);
    VIADUCT_CHECK(
        ConfigError, missing.empty(),
        "model {} has {}, so the table of models does not describe it fully; give its Hugging "
        "Face config.json or a training configuration instead",
        name, missing);
    std::vector<std::string> overrides{"model.family=" + family_of(row), "model.hidden_dropout=0",
                                       "model.attention_dropout=0"};
    const auto add = [&](const char* field, const char* column) {
      if (!row[column].empty()) overrides.push_back(fmt::format("model.{}={}", field, row[column]));
    };
    add("num_layers", "layers"), add("hidden_size", "hidden");
    add("ffn_hidden_size", "ffn_hidden"), add("num_attention_heads", "heads");
    const std::string family = family_of(row);
    if (family != "gpt2" && row["attention"] != "MLA")
      add("num_query_groups", "kv_heads"), add("kv_channels", "head_dim");
    if (row["attention"] == "MLA") add_latent(row, overrides);
    if (has_windows(row)) add_windows(row, overrides);
    add("vocab_size", "vocab");
    add("num_moe_experts", "experts"), add("moe_router_topk", "topk");
    add("moe_ffn_hidden_size", "moe_ffn");
    if (has_chunks(row)) add("moe_shared_expert_intermediate_size", "shared_expert_ffn");
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
