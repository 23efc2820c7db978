#pragma once
// Prompts as given by users, and their preparation for a model: ids, limits, batches by length.

#include <filesystem>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "generate/generate.h"
#include "model/model_config.h"

namespace viaduct {

struct PromptText {
  std::string text;
  std::string where;  // for messages: "--prompt", "prompts.txt line 3"
  /// Of the text, where its tokenization is not that of a plain text.
  std::optional<std::vector<int32_t>> ids = {};
  std::string id = {};  // JSON: what the line of a conversation calls itself; empty: nothing
  /// Of a conversation: what of its tools the template does not show, in words; or "".
  std::string hidden_tools = {};
  std::optional<std::string> adapter = {};  // chosen_adapter of its line
  ImageBatch images = {};                   // of a conversation, in the order of their places
};

/// Lines as they are, and whether they are JSONL.
struct PromptLines {
  std::vector<PromptText> lines;
  bool jsonl = false;
};
/// ConfigError that names the line if `text` is not UTF-8: a tokenizer would replace what is not.
void check_utf8(std::string_view text, const std::string& where);
/// ConfigError for an input without lines, and for one that is not UTF-8.
PromptLines read_prompt_lines(std::istream& in, const std::string& name, bool jsonl);
/// The same from a file that an option or field, `given_by`, names; JSONL if its name ends in
/// .jsonl or .json.
PromptLines read_prompt_file(const std::filesystem::path& file,
                             std::string_view given_by = "--prompt-file");
/// The lines themselves, or in JSONL their fields "prompt" and "adapter". ConfigError that names
/// the line for JSON that is malformed or has no such text, and as chosen_adapter.
std::vector<PromptText> plain_prompts(PromptLines lines);
/// The JSON of a line of JSONL; ConfigError if it is none.
nlohmann::json prompt_document(const PromptText& line);

/// Ids and limits of prompts 0, 1, …: `max_new_tokens` of each, or without it 128, limited by the
/// model's positions. ConfigError that lists every prompt that is empty, too long, or asks for an
/// adapter that is none of `adapters`, their names.
std::vector<Prompt> make_prompts(const std::vector<PromptText>& texts, const Tokenizer& tokenizer,
                                 const ModelConfig& model, std::optional<int64_t> max_new_tokens,
                                 const std::vector<std::string>& adapters = {});

/// For a model with an encoder, which reads the prompt there, ended as in training: its decoder
/// begins a text of its own.
void give_to_encoder(Prompt& prompt, const ModelConfig& model);

/// The tokens that end a text, of the tokenizer and of the model.
std::vector<int32_t> stop_tokens(const Tokenizer& tokenizer, const ModelConfig& model);

/// Maximum tokens of a sequence: prompt and new tokens.
int64_t longest(const std::vector<Prompt>& prompts);

/// Divides the prompts into batches of at most `most`, each of one adapter, sorted by length so
/// that fewer passes wait for a long prompt.
std::vector<std::vector<Prompt>> batches_by_length(std::vector<Prompt> prompts, int64_t most);

}  // namespace viaduct
