#include "generate/prompts.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "base/user_input.h"
#include "config/problems.h"
#include "data/text_check.h"
#include "data/tokenizer/text_ids.h"
#include "generate/adapter_choice.h"

namespace viaduct {
namespace {

constexpr int64_t kDefaultNewTokens = 128;

/// Puts what a line of JSON says in its place.
void read_line(PromptText& text) {
  const std::string line = text.text;
  const std::string& where = text.where;
  const nlohmann::json document = prompt_document(text);
  VIADUCT_CHECK(ConfigError, document.is_object(), "{}: expected a JSON object, found '{}'", where,
                line.substr(0, 80));
  const auto prompt = document.find("prompt");
  VIADUCT_CHECK(ConfigError, prompt != document.end() && prompt->is_string(),
                "{}: expected a text \"prompt\", {}", where,
                prompt == document.end() ? std::string("which is missing")
                                         : "found " + prompt->dump().substr(0, 80));
  text.text = prompt->get<std::string>();
  text.adapter = chosen_adapter(document, where);
}

/// New tokens for which a sequence has room behind its prompt.
int64_t room_behind(const Prompt& prompt, const ModelConfig& model) {
  // Relative positions have no end.
  const int64_t positions = model.positions == PositionKind::relative
                                ? std::numeric_limits<int32_t>::max()
                                : model.max_positions;
  return positions - prompt.prompt_tokens();
}

}  // namespace

void check_utf8(std::string_view text, const std::string& where) {
  const std::string problem = ill_formed_places(text);
  VIADUCT_CHECK(ConfigError, problem.empty(), "{}: not UTF-8: {}", where, problem);
}

nlohmann::json prompt_document(const PromptText& line) {
  return read_user_input([&] { return parse_json<nlohmann::json>(line.text, line.where); });
}

void give_to_encoder(Prompt& prompt, const ModelConfig& model) {
  prompt.input = std::exchange(prompt.ids, {static_cast<int32_t>(model.encoder.start_token)});
  prompt.continues = false;
  if (model.end_tokens.empty()) return;
  const auto end = static_cast<int32_t>(model.end_tokens.front());
  if (prompt.input.back() != end) prompt.input.push_back(end);
}

PromptLines read_prompt_lines(std::istream& in, const std::string& name, bool jsonl) {
  PromptLines read{.jsonl = jsonl};
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    read.lines.push_back({line, fmt::format("{} line {}", name, read.lines.size() + 1)});
    check_utf8(line, read.lines.back().where);
  }
  VIADUCT_CHECK(IoError, !in.bad(), "{}: cannot be read", name);
  VIADUCT_CHECK(ConfigError, !read.lines.empty(), "{}: has no prompt; expected one a line", name);
  return read;
}

PromptLines read_prompt_file(const std::filesystem::path& file, std::string_view given_by) {
  check_given_path(fmt::format("{} ", given_by), file, "a text file or JSONL");
  std::ifstream in(file);
  std::error_code error;
  VIADUCT_CHECK(ConfigError, !std::filesystem::is_directory(file, error),
                "{} {}: is a folder, expected a file", given_by, file.string());
  VIADUCT_CHECK(IoError, in.good(), "{} {}: cannot be opened", given_by, file.string());
  const std::string extension = file.extension().string();
  return read_prompt_lines(in, file.string(), extension == ".jsonl" || extension == ".json");
}

std::vector<PromptText> plain_prompts(PromptLines lines) {
  if (lines.jsonl) {
    for (PromptText& line : lines.lines) read_line(line);
  }
  return std::move(lines.lines);
}

std::vector<Prompt> make_prompts(const std::vector<PromptText>& texts, const Tokenizer& tokenizer,
                                 const ModelConfig& model, std::optional<int64_t> max_new_tokens,
                                 const std::vector<std::string>& adapters) {
  Problems problems;
  std::vector<Prompt> prompts;
  for (const PromptText& text : texts) {
    Prompt prompt{static_cast<int64_t>(prompts.size()),
                  text.ids ? *text.ids : text_ids(tokenizer, text.text)};
    const bool empty = text.text.empty() || prompt.ids.empty();
    prompt.continues = !text.ids;
    prompt.images = text.images;
    if (model.encoder.any() && !empty) give_to_encoder(prompt, model);
    const int64_t room = room_behind(prompt, model);
    if (empty) {
      problems.add("{}: empty; expected a text to continue", text.where);
    } else if (room <= 0) {
      problems.add("{}: {} tokens leave no room in the {} positions that the model allows",
                   text.where, prompt.ids.size(), model.max_positions);
    } else if (max_new_tokens && *max_new_tokens > room) {
      problems.add(
          "{}: --max-new-tokens is {}; the model has {} positions and this prompt {}, which leaves "
          "{}",
          text.where, *max_new_tokens, model.max_positions, prompt.ids.size(), room);
    }
    const VisionConfig& vision = model.vision;
    const auto of_images = std::ranges::count(prompt.ids, vision.image_token);
    if (vision.any() && of_images != prompt.images.count * vision.rows()) {
      problems.add(
          "{}: the token of images (id {}) {}, which a text does not have: --chat reads pictures",
          text.where, vision.image_token, counted(of_images, "time"));
    }
    try {
      prompt.adapter = adapter_number(text.adapter, adapters, text.where);
    } catch (const ConfigError& error) {
      problems.add_text(error.what());
    }
    prompt.max_new_tokens = max_new_tokens.value_or(std::min(kDefaultNewTokens, room));
    prompts.push_back(std::move(prompt));
  }
  problems.throw_if_any();
  return prompts;
}

std::vector<int32_t> stop_tokens(const Tokenizer& tokenizer, const ModelConfig& model) {
  std::vector<int32_t> stop = tokenizer.special_ids().stop;
  if (tokenizer.special_ids().eod) stop.push_back(*tokenizer.special_ids().eod);
  for (const int64_t id : model.end_tokens) stop.push_back(static_cast<int32_t>(id));
  return stop;
}

int64_t longest(const std::vector<Prompt>& prompts) {
  int64_t tokens = 0;
  for (const Prompt& prompt : prompts)
    tokens = std::max(tokens, prompt.prompt_tokens() + prompt.max_new_tokens);
  return tokens;
}

std::vector<std::vector<Prompt>> batches_by_length(std::vector<Prompt> prompts, int64_t most) {
  std::stable_sort(prompts.begin(), prompts.end(), [](const Prompt& a, const Prompt& b) {
    return std::pair(a.adapter, a.all_tokens()) < std::pair(b.adapter, b.all_tokens());
  });
  std::vector<std::vector<Prompt>> batches;
  for (Prompt& prompt : prompts) {
    if (batches.empty() || static_cast<int64_t>(batches.back().size()) == most ||
        batches.back().front().adapter != prompt.adapter)
      batches.emplace_back();
    batches.back().push_back(std::move(prompt));
  }
  return batches;
}

}  // namespace viaduct
