// viaduct generate: sample text from a model.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/generator.h"
#include "override_scope.h"
#include "standard_streams.h"
#include "subcommands.h"
#include "train/rank_device.h"
#include "train/run_config.h"

namespace viaduct::cli {
namespace {

constexpr int64_t kDefaultNewTokens = 128;

struct Arguments {
  std::string model, prompt;
  std::vector<std::string> overrides;
  int64_t max_new_tokens = -1;
  SamplingOptions sampling;
  uint64_t seed = 1234;
  bool json = false;
};

/// The ids of the prompt behind what the tokenizer puts before a text. What it puts after one (an
/// end token) would end the text that is to be continued.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const ModelConfig& model,
                                const std::string& prompt) {
  const std::vector<int32_t> plain = tokenizer.encode(prompt);
  EncodeOptions with_special;
  with_special.add_special_tokens = true;
  std::vector<int32_t> ids = tokenizer.encode(prompt, with_special);
  const auto text = std::search(ids.begin(), ids.end(), plain.begin(), plain.end());
  if (text != ids.end()) ids.erase(text + static_cast<int64_t>(plain.size()), ids.end());
  if (ids.empty() && model.begin_token >= 0) ids.push_back(static_cast<int32_t>(model.begin_token));
  VIADUCT_CHECK(ConfigError, !ids.empty(),
                "--prompt: empty, and the model has no token that begins a text");
  return ids;
}

int64_t new_tokens(const Arguments& arguments, const ModelConfig& model, size_t prompt) {
  const int64_t room = model.max_positions - static_cast<int64_t>(prompt);
  VIADUCT_CHECK(ConfigError, room > 0,
                "--prompt: {} tokens leave no room in the {} positions that the model allows",
                prompt, model.max_positions);
  if (arguments.max_new_tokens < 0) return std::min(kDefaultNewTokens, room);
  VIADUCT_CHECK(ConfigError, arguments.max_new_tokens <= room,
                "--max-new-tokens {}: with a prompt of {} tokens the model's {} positions leave "
                "room for {}",
                arguments.max_new_tokens, prompt, model.max_positions, room);
  return arguments.max_new_tokens;
}

std::vector<int32_t> stop_tokens(const Tokenizer& tokenizer, const ModelConfig& model) {
  std::vector<int32_t> stop = tokenizer.special_ids().stop;
  if (tokenizer.special_ids().eod) stop.push_back(*tokenizer.special_ids().eod);
  for (const int64_t id : model.end_tokens) stop.push_back(static_cast<int32_t>(id));
  return stop;
}

/// It runs on one rank, and the model is the folder's.
OverrideScope scope() {
  return {"viaduct generate",
          {"dist.device", "dist.cpu_isa", "dist.threads_per_rank", "mixed_precision.recipe"}};
}

RunConfig defaults() {
  RunConfig config;
  config.mixed_precision.recipe = "fp32";
  return config;
}

void print_now(std::string_view text) {
  fmt::print("{}", text);
  flush_standard_output();
}

int run(const Arguments& arguments) {
  check(arguments.sampling);
  scope().check(arguments.overrides);
  const RunConfig config = load_run_config({}, arguments.overrides, defaults()).config;
  const ModelFolder folder = resolve_model_folder(arguments.model);
  const ModelConfig model = read_model_config(folder);
  for (const std::string& note : model.notes) log_warning("{}", note);
  const Tokenizer tokenizer = load_tokenizer(folder.path);
  const std::vector<int32_t> prompt = prompt_ids(tokenizer, model, arguments.prompt);
  GenerateOptions options;
  options.sampling = arguments.sampling;
  options.seed = arguments.seed;
  options.max_new_tokens = new_tokens(arguments, model, prompt.size());
  options.stop_tokens = stop_tokens(tokenizer, model);

  const RankDevice rank = make_rank_device(config.dist);
  Generator generator(*rank.device, rank.ops, model, precision_recipe(config.mixed_precision),
                      static_cast<int64_t>(prompt.size()) + options.max_new_tokens);
  OpContext context = generator.context();
  load_parameters(context, generator.store(), *open_weights(folder), model);

  if (!arguments.json) print_now(arguments.prompt);
  DecodeStream stream(tokenizer);
  std::string text;
  const auto take = [&](const std::string& more) {
    text += more;
    if (!arguments.json) print_now(more);
  };
  const auto begin = std::chrono::steady_clock::now();
  const Generated result =
      generate(generator, prompt, options, [&](int32_t id) { take(stream.push(id)); });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  take(stream.finish());
  const double rate = static_cast<double>(result.tokens.size()) / std::max(seconds, 1e-9);

  if (arguments.json) {
    nlohmann::ordered_json document{
        {"prompt", arguments.prompt},
        {"text", text},
        {"prompt_tokens", prompt},
        {"tokens", result.tokens},
        {"stop_reason", result.reason == StopReason::length ? "length" : "stop_token"},
        {"stop_token", nullptr},
        {"tokens_per_second", rate}};
    if (result.stop_token) document["stop_token"] = *result.stop_token;
    fmt::print("{}\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_now("\n");
    if (::isatty(STDERR_FILENO) == 1)
      say("{} tokens, {:.1f} tokens/s\n", result.tokens.size(), rate);
  }
  return 0;
}

}  // namespace

Subcommand add_generate(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("generate", "Sample text from a model");
  app->add_option("--model", arguments->model, "Hugging Face folder, checkpoint or save folder")
      ->required();
  app->add_option("--prompt", arguments->prompt,
                  "Text to continue; what the tokenizer puts before a text is added")
      ->required();
  app->add_option("--max-new-tokens", arguments->max_new_tokens,
                  "Stop after so many; if absent 128, or fewer where the model's positions end")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--temperature", arguments->sampling.temperature,
                  "Divides the logits; 0 takes the most likely token each time")
      ->capture_default_str();
  app->add_option("--top-k", arguments->sampling.top_k, "Only the K most likely tokens; 0: all")
      ->capture_default_str();
  app->add_option("--top-p", arguments->sampling.top_p,
                  "Only the most likely tokens whose probabilities reach P")
      ->capture_default_str();
  app->add_option("--seed", arguments->seed, "The same seed gives the same text")
      ->capture_default_str();
  app->add_flag("--json", arguments->json,
                "One JSON document: prompt, text, prompt_tokens, tokens, stop_reason (length or "
                "stop_token), stop_token, tokens_per_second");
  app->add_option("OVERRIDES", arguments->overrides,
                  "section.field=value, such as mixed_precision=bf16_mixed (default: fp32) or "
                  "dist.threads_per_rank=8; " +
                      scope().help());
  app->footer(
      "The text ends at a stop token of the tokenizer, generation_config.json or config.json, or "
      "at --max-new-tokens.\n\n"
      "Example:\n  viaduct generate --model runs/quickstart --prompt \"ROMEO:\" --max-new-tokens "
      "200 --temperature 0.8 --top-k 40");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
