#include "checkpoint/gguf_text_borders.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_reader.h"

namespace viaduct {
namespace {

std::string spelled(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids)
    text += (text.empty() ? "" : " ") + shown_name(tokenizer.token(id).value_or("?"));
  return text;
}

/// Whether the file's one token for this place is what the template puts there.
bool adds(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, int64_t id,
          const char* place, std::vector<std::string>& notes) {
  if (ids.empty()) return false;
  if (ids.size() == 1 && ids.front() == id) return true;
  notes.push_back(fmt::format(
      "GGUF: the tokenizer puts {} {} each text; llama.cpp can put only one token there, its {}, "
      "and will put none",
      spelled(tokenizer, ids), place, std::string_view(place) == "before" ? "bos" : "eos"));
  return false;
}

/// The ids that end a generated text, the main one first.
std::vector<int64_t> ends_of(const ModelConfig& model, const Tokenizer* tokenizer) {
  std::vector<int64_t> ends = model.end_tokens;
  if (tokenizer == nullptr) return ends;
  const SpecialIds& special = tokenizer->special_ids();
  std::vector<int32_t> more;
  if (special.eos) more.push_back(*special.eos);
  more.insert(more.end(), special.stop.begin(), special.stop.end());
  for (const int32_t id : more) {
    if (id < model.vocabulary && std::find(ends.begin(), ends.end(), id) == ends.end())
      ends.push_back(id);
  }
  return ends;
}

}  // namespace

void add_gguf_text_borders(GgufHeadWriter& head, const ModelConfig& model,
                           const Tokenizer* tokenizer, std::vector<std::string>& notes) {
  const std::vector<int64_t> ends = ends_of(model, tokenizer);
  int64_t begin = model.begin_token;
  const int64_t end = ends.empty() ? -1 : ends.front();
  if (tokenizer != nullptr) {
    const auto& before = tokenizer->around().before;
    if (before.size() == 1 && before.front() < model.vocabulary)
      begin = before.front();  // its key has no other use there
    if (begin < 0) begin = tokenizer->special_ids().bos.value_or(-1);
  }
  // Whether the row of a padding token learns is the model's own: no tokenizer says it. GPT-2 has
  // no such rows.
  int64_t padding = model.padding_token;
  if (padding < 0 && model.family == "gpt2" && tokenizer != nullptr)
    padding = tokenizer->special_ids().pad.value_or(-1);
  if (padding >= model.vocabulary) padding = -1;
  for (const auto& [key, id] : {std::pair{"tokenizer.ggml.bos_token_id", begin},
                                std::pair{"tokenizer.ggml.eos_token_id", end},
                                std::pair{"tokenizer.ggml.padding_token_id", padding}}) {
    if (id >= 0) head.add_u32(key, id);
  }
  if (ends.size() > 1) head.add_u32(kGgufEndOfTurn, ends[1]);
  if (ends.size() > 2) {
    notes.push_back(fmt::format(
        "GGUF: a file has room for two ids that end texts ({} and {}); the others are left out: {}",
        ends[0], ends[1], fmt::join(ends.begin() + 2, ends.end(), ", ")));
  }
  if (tokenizer == nullptr) return;
  const auto& [before, after, trims] = tokenizer->around();
  head.add_flag("tokenizer.ggml.add_bos_token", adds(*tokenizer, before, begin, "before", notes));
  head.add_flag("tokenizer.ggml.add_eos_token", adds(*tokenizer, after, end, "after", notes));
}

}  // namespace viaduct
