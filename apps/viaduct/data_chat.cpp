// viaduct data chat: chat files to a dataset with a mask of what is learned.

#include "data_chat.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "chat_options.h"
#include "checkpoint/model_folder.h"
#include "conversation/chat_files.h"
#include "conversation/image_places.h"
#include "conversation/prompt_template.h"
#include "data/tokenizer/tokenizer.h"
#include "existing_output.h"
#include "masked_text.h"
#include "number_checks.h"
#include "progress_bar.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  ChatOptions chat;
  std::vector<std::string> inputs;
  std::string output, train_on, overlong, invalid = "refuse", prompt_template,
                                          control_tokens = "recognised";
  int64_t max_length = 0;
  bool overwrite = false;
  int workers = default_pool_threads(1);
};

/// A share in percent.
double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Warns of the conversations that have what `what` says, if there are any.
void warn_of(const ProblemCount& count, std::string_view what) {
  if (count.lines == 0) return;
  log_warning("{} {} (the first: {})",
              counted(count.lines, "conversation has", "conversations have"), what, count.first);
}

void warn_about_input(const ChatFilesResult& result, const ChatFilesSettings& settings) {
  for (size_t i = 0; i < result.problems.size(); ++i) {
    const ProblemCount& problem = result.problems[i];
    if (problem.lines == 0) continue;
    log_warning("{} left out: {} (the first: {})", counted(problem.lines, "line"),
                problem_name(static_cast<ConversationProblem>(i)), problem.first);
  }
  if (!result.control_tokens.empty()) {
    constexpr size_t kShown = 8;
    std::vector<std::string> names;
    for (const auto& [token, count] : result.control_tokens)
      names.push_back(fmt::format("{} {}", token, counted(count, "time")));
    if (names.size() > kShown) {
      names.resize(kShown);
      names.emplace_back("…");
    }
    log_warning("control tokens in the text of messages: {}; {}", fmt::join(names, ", "),
                settings.control_tokens_as_text
                    ? "they are encoded as plain text"
                    : "they are encoded as control tokens, as Hugging Face does; "
                      "--user-control-tokens as-text encodes them as plain text");
  }
  warn_of(result.hidden_tools, "tools or tool calls that the template does not show");
  warn_of(result.hidden_context,
          "thoughts (reasoning_content, thinking) or documents that the template does not show, so "
          "that no model sees or learns them");
  warn_of(result.joined_parts,
          "content as a list of parts, which the template does not take; their texts are joined by "
          "line breaks, as llama.cpp and vLLM do");
  warn_of(result.encoded_twice,
          "calls whose arguments are JSON as a text, of which the template makes JSON again: what "
          "is learned is a text of escaped JSON, \"{\\\"…\", as transformers renders it; give "
          "arguments as an object");
  warn_of(result.passed_over,
          fmt::format("messages that say \"train\": true or \"weight\": 1 and are not learned: "
                      "--train-on {} learns others",
                      fmt::join(result.train_on, ", ")));
  if (result.open_answers > 0) {
    log_warning(
        "{} not end with a special token: a model learns to stop from the end token that a "
        "template writes at the end of an answer, and this one writes none there",
        counted(result.open_answers, "answer does", "answers do"));
  }
  if (result.open_ends > 0) {
    log_warning(
        "{} not end with a special token: prompts and completions are joined as they are, and a "
        "model learns to stop from the end token that stands at the end of a completion",
        counted(result.open_ends, "completion does", "completions do"));
  }
  if (result.unknown_bytes > 0) {
    log_warning("{} without a token in this vocabulary: {}", counted(result.unknown_bytes, "byte"),
                settings.tokenizer->unknown_bytes_became());
  }
}

void print_result(const Arguments& arguments, const ChatFilesSettings& settings,
                  const ChatFilesResult& result, double seconds) {
  const std::string& output = arguments.output;
  fmt::print(
      "{0}.bin, {0}.idx, {0}.mask.bin, {0}.mask.idx: {1}, {2}, {3} ({4}), {5:.1f} % of them "
      "learned, from {6} in {7}\n",
      output, counted(result.conversations, "conversation"), counted(result.rows, "row"),
      counted(result.tokens, "token"), token_type_name(settings.type),
      percent(result.scored, result.tokens), format_bytes(result.bytes), format_seconds(seconds));
  fmt::print("learned: {}; the longest row has {}\n", fmt::join(result.train_on, ", "),
             counted(result.longest_written, "token"));
  if (result.own_rows > 0) {
    fmt::print(
        "{} of a single answer, with what is before it: the template shows these answers "
        "otherwise in the whole conversation\n",
        counted(result.own_rows, "row"));
  }
  if (result.images > 0) {
    fmt::print("{0}.images.bin, {0}.images.idx, {0}.images.jsonl: {1} of {2} in the rows\n", output,
               counted(result.images, "place"), counted(result.pictures, "picture"));
  }
  if (result.overlong > 0) {
    fmt::print("{} longer than {}: {} (the longest had {})\n", counted(result.overlong, "row"),
               counted(arguments.max_length, "token"),
               settings.overlong == Overlong::drop ? "dropped" : "cut", result.longest);
  }
  if (result.unfit > 0) {
    fmt::print("{} of them dropped: the last answer and its question do not fit\n",
               counted(result.unfit, "row"));
  }
  if (result.dropped > 0)
    fmt::print("{} without a learned token: dropped\n", counted(result.dropped, "row"));
  const bool colours = shows_colours(STDOUT_FILENO);
  fmt::print(
      "the first row, what is learned in {}:\n{}\n", colours ? "green" : "[brackets]",
      masked_text(*settings.tokenizer, result.first_row.ids, result.first_row.mask, colours, true));
}

ChatFilesSettings settings_of(const Arguments& arguments) {
  ChatFilesSettings settings;
  settings.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  settings.output = arguments.output;
  settings.clock = clock_of(arguments.chat);
  if (!arguments.train_on.empty()) settings.train_on = train_on_of(arguments.train_on);
  if (!arguments.prompt_template.empty()) {
    parse_prompt_template(arguments.prompt_template);
    settings.reading = {arguments.prompt_template, true, true};
  }
  if (arguments.max_length > 0) settings.max_length = arguments.max_length;
  VIADUCT_CHECK(ConfigError, arguments.overlong.empty() || settings.max_length,
                "--overlong {} needs --max-length", arguments.overlong);
  for (size_t i = 0; i < overlong_names().size(); ++i) {
    if (overlong_names()[i] == arguments.overlong) settings.overlong = static_cast<Overlong>(i);
  }
  settings.skip_invalid = arguments.invalid == "skip";
  settings.control_tokens_as_text = arguments.control_tokens == "as-text";
  settings.workers = arguments.workers;
  return settings;
}

/// Whether the folder's model reads a prompt by an encoder.
bool has_encoder(const std::string& folder) {
  const auto config = open_tokenizer_files(folder).object("config.json");
  if (!config) return false;
  const auto found = config->find("is_encoder_decoder");
  return found != config->end() && found->is_boolean() && found->get<bool>();
}

int run(const Arguments& arguments) {
  check_new_dataset(arguments.output, arguments.overwrite);
  ChatFilesSettings settings = settings_of(arguments);
  const Tokenizer tokenizer = open_tokenizer(arguments.chat.tokenizer);
  const auto renderer = open_renderer(arguments.chat);
  settings.tokenizer = &tokenizer;
  settings.renderer = renderer ? &*renderer : nullptr;
  std::optional<ImagePlaces> images;
  if (auto tokens = image_tokens_of(arguments.chat.tokenizer, tokenizer)) {
    images.emplace(std::move(*tokens), settings.renderer, RenderOptions{false, settings.clock});
    settings.images = &*images;
    settings.reading.images = true;
  }
  settings.type = token_type_for_vocabulary(tokenizer.vocab_size());
  settings.completions_apart = has_encoder(arguments.chat.tokenizer);
  make_folder_of_dataset(arguments.output);
  ChatFilesResult result;
  double seconds = 0;
  {
    ProgressBar bar;
    result =
        convert_chat_files(settings, [&](int64_t done, int64_t total) { bar.show(done, total); });
    seconds = bar.elapsed();
  }
  print_result(arguments, settings, result, seconds);
  warn_about_input(result, settings);
  return 0;
}

}  // namespace

Subcommand add_data_chat(CLI::App& data) {
  CLI::App* app = data.add_subcommand(
      "chat", "Convert conversations to Megatron .bin/.idx with a mask of what is learned");
  auto arguments = std::make_shared<Arguments>();
  app->add_option("--input", arguments->inputs,
                  "Chat files: JSONL, or a JSON list (.json), also as .gz or .zst; - is standard "
                  "input")
      ->check(not_empty())
      ->required();
  app->add_option("--tokenizer", arguments->chat.tokenizer,
                  "Folder of the model with tokenizer and chat template, or FILE.gguf")
      ->check(not_empty())
      ->required();
  app->add_option("--output", arguments->output, "Prefix of the files to write")
      ->check(new_path())
      ->required();
  add_overwrite(*app, arguments->overwrite);
  add_chat_options(*app, arguments->chat);
  app->add_option("--train-on", arguments->train_on,
                  "What is learned: every answer of the assistant, the last one, all but the first "
                  "token, or the completion of a prompt (assistant for messages, completion for "
                  "prompt and completion). A message with \"train\": false or \"weight\": 0 is "
                  "never learned")
      ->check(CLI::IsMember(train_on_names()));
  app->add_option("--max-length", arguments->max_length, "Tokens of the longest row allowed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  app->add_option("--overlong", arguments->overlong,
                  "Longer rows: refuse (with their number and the longest), drop, truncate_end, or "
                  "truncate_start, which keeps the system message and begins with a question "
                  "(refuse)")
      ->check(CLI::IsMember(overlong_names()));
  app->add_option("--invalid", arguments->invalid,
                  "Lines that are no conversations: refuse all, with counts by kind, or skip them")
      ->check(CLI::IsMember({"refuse", "skip"}))
      ->capture_default_str();
  app->add_option("--prompt-template", arguments->prompt_template,
                  "Megatron's form: the text of a line, with {names} of its members; {output} is "
                  "the answer")
      ->check(not_empty());
  app->add_option("--user-control-tokens", arguments->control_tokens,
                  "Control tokens that stand in the messages' own text: recognised, or as-text")
      ->check(CLI::IsMember({"recognised", "as-text"}))
      ->capture_default_str();
  app->add_option("--workers", arguments->workers, "Threads; the output does not depend on them")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->footer(
      "Example:\n  viaduct data chat --input chats.jsonl --tokenizer models/smollm2 --output "
      "data/chats\n  viaduct data inspect data/chats --text --tokenizer models/smollm2 --rows 0:3");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
