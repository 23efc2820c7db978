#include "chat_options.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/user_input.h"
#include "checkpoint/model_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "image/image_processor.h"
#include "number_checks.h"

namespace viaduct::cli {
namespace {

using nlohmann::json;

/// --special: an object of texts; null takes a token away.
void replace_special(const std::string& given, SpecialTokenTexts& special) {
  if (given.empty()) return;
  const json tokens = read_user_input([&] { return parse_json<json>(given, "--special"); });
  VIADUCT_CHECK(ConfigError, tokens.is_object(),
                "--special: expected an object like {{\"bos_token\": \"<s>\"}}, found {}",
                tokens.type_name());
  for (const auto& [name, value] : tokens.items()) {
    VIADUCT_CHECK(ConfigError, value.is_string() || value.is_null(),
                  "--special: {} is {}, expected a text", name, value.type_name());
    special.erase(std::remove_if(special.begin(), special.end(),
                                 [&name = name](const auto& known) { return known.first == name; }),
                  special.end());
    if (value.is_string()) special.emplace_back(name, value.get<std::string>());
  }
}

}  // namespace

void add_chat_options(CLI::App& app, ChatOptions& options) {
  app.add_option("--template", options.chat_template,
                 "A chat template (Jinja) instead of the one of the tokenizer's files")
      ->check(not_empty());
  app.add_option("--now", options.now,
                 "The time that templates with a date show, like 2026-02-03T04:05:06; without it, "
                 "now")
      ->check(not_empty());
}

std::optional<ChatRenderer> open_renderer(const ChatOptions& options) {
  std::optional<TokenizerFiles> files;
  if (!options.tokenizer.empty()) files = open_tokenizer_files(options.tokenizer);
  if (options.chat_template.empty() && options.special.empty())
    return files ? ChatRenderer::load(*files) : std::nullopt;
  if (options.chat_template.empty()) {
    auto renderer = ChatRenderer::load(*files);
    if (!renderer) return std::nullopt;
    SpecialTokenTexts special = renderer->special_tokens();
    replace_special(options.special, special);
    return renderer->with_special_tokens(std::move(special));
  }
  check_given_path("--template ", options.chat_template, "a file with a chat template");
  SpecialTokenTexts special;
  if (files) special = special_token_texts(*files);
  replace_special(options.special, special);
  return ChatRenderer::of_file(options.chat_template, std::move(special));
}

std::optional<ImageTokens> image_tokens_of(const std::string& model, const Tokenizer& tokenizer) {
  const TokenizerFiles files = open_tokenizer_files(model);
  const auto config = files.object("config.json");
  if (!config) return std::nullopt;
  auto tokens = image_tokens(*config, files.where("config.json"), tokenizer.added_tokens());
  if (!tokens) return std::nullopt;
  if (const auto processor = ImageProcessor::load(files.where())) {
    VIADUCT_CHECK(ConfigError, processor->side() == tokens->side,
                  "{}: {} makes pictures of {} pixels a side, and vision_config.image_size is {}",
                  files.where(), processor->settings().type, processor->side(), tokens->side);
  }
  return tokens;
}

TemplateClock clock_of(const ChatOptions& options) {
  if (options.now.empty()) return local_clock();
  TemplateClock clock;
  int taken = 0;
  const int read =
      std::sscanf(options.now.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &clock.year, &clock.month,
                  &clock.day, &clock.hour, &clock.minute, &clock.second, &taken);
  const bool good = read == 6 && static_cast<size_t>(taken) == options.now.size() &&
                    clock.year >= 1 && clock.month >= 1 && clock.month <= 12 && clock.day >= 1 &&
                    clock.day <= 31 && clock.hour >= 0 && clock.hour < 24 && clock.minute >= 0 &&
                    clock.minute < 60 && clock.second >= 0 && clock.second < 60;
  VIADUCT_CHECK(ConfigError, good, "--now {}: expected a time like 2026-02-03T04:05:06",
                options.now);
  return clock;
}

}  // namespace viaduct::cli
