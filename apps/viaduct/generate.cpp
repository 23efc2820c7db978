// viaduct generate: sample text from a model.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "before_ranks.h"
#include "dry_run_stages.h"
#include "generate_output.h"
#include "generation_options.h"
#include "model_options.h"
#include "number_checks.h"
#include "run/encoder_support.h"
#include "run/launch.h"
#include "run/longrope_note.h"
#include "run/rank_device.h"
#include "standard_streams.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

struct Arguments : GenerationArguments {
  std::vector<std::string> prompts;
  std::string prompt_file;
  int64_t batch_size = 16;
  bool chat = false, json = false, dry_run = false;
};

PromptLines read_standard_input(const Launch& launch) {
  VIADUCT_CHECK(ConfigError, launch.ranks == 1,
                "-: standard input reaches one of the {} processes; use --prompt-file FILE",
                launch.ranks);
  // If the first line is an object, all lines are JSONL.
  return read_prompt_lines(std::cin, "standard input", std::cin.peek() == '{');
}

/// Reads the prompts from the one source that is given.
PromptLines read_lines(Arguments& arguments, const Launch& launch) {
  auto& rest = arguments.inference.overrides;
  const auto dash = std::find(rest.begin(), rest.end(), "-");
  const bool has_dash = dash != rest.end();
  if (has_dash) rest.erase(dash);
  const bool from_input = has_dash || arguments.prompt_file == "-";
  const int sources = (has_dash ? 1 : 0) + (arguments.prompts.empty() ? 0 : 1) +
                      (arguments.prompt_file.empty() ? 0 : 1);
  VIADUCT_CHECK(ConfigError, sources == 1,
                "viaduct generate: expected one of --prompt TEXT…, --prompt-file FILE and - "
                "(standard input), found {}",
                sources);
  if (from_input) return read_standard_input(launch);
  if (!arguments.prompt_file.empty()) return read_prompt_file(arguments.prompt_file);
  PromptLines texts;
  for (const std::string& text : arguments.prompts) {
    texts.lines.push_back({text, arguments.prompts.size() == 1
                                     ? "--prompt"
                                     : fmt::format("--prompt {}", texts.lines.size() + 1)});
    check_utf8(text, texts.lines.back().where);
  }
  return texts;
}

/// Everything that is known before weights are read.
struct Prepared {
  std::vector<PromptText> texts;
  std::vector<Prompt> prompts;
  RunSetup setup;
  GenerationWork work;
};

void warn_about_tools(const std::vector<PromptText>& texts) {
  const auto is_hidden = [](const PromptText& text) { return !text.hidden_tools.empty(); };
  const auto first = std::ranges::find_if(texts, is_hidden);
  if (first == texts.end()) return;
  log_warning(
      "{} tools or tool calls that the chat template does not show (the first: {}: {})",
      counted(std::ranges::count_if(texts, is_hidden), "conversation has", "conversations have"),
      first->where, first->hidden_tools);
}

/// Adapters that no prompt names are read for nothing.
void warn_about_adapters(const Prepared& prepared) {
  const auto& adapters = prepared.setup.adapters;
  for (size_t i = 0; i < adapters.size(); ++i) {
    const auto number = static_cast<int64_t>(i) + 1;
    if (std::ranges::none_of(prepared.prompts,
                             [&](const Prompt& prompt) { return prompt.adapter == number; }))
      log_warning("--adapter {}={} has no effect: no prompt says \"adapter\": \"{}\"",
                  adapters[i].name, adapters[i].folder.string(), adapters[i].name);
  }
}

/// The prompts that the lines stand for, and what ends their texts.
void take_lines(Prepared& prepared, const Arguments& arguments, PromptLines lines) {
  std::unique_ptr<const ChatPrompts> chat;
  VIADUCT_CHECK(ConfigError, arguments.images.empty() || !lines.jsonl,
                "--image {}: lines of JSON name their pictures themselves",
                arguments.images.front());
  if (arguments.chat) {
    refuse_encoder(prepared.setup.model, "viaduct generate --chat");
    chat = open_chat_prompts(arguments.talk, prepared.setup);
  }
  prepared.texts = chat ? make_chat_prompts(lines.lines, lines.jsonl, *chat, arguments.images)
                        : plain_prompts(std::move(lines));
  warn_about_tools(prepared.texts);
  prepared.work.options.stop_tokens = stop_tokens(prepared.setup, chat.get());
}

void check_options(const Arguments& arguments) {
  VIADUCT_CHECK(ConfigError, arguments.chat || !arguments.talk.any(),
                "viaduct generate: --template, --now and --user-control-tokens are of "
                "conversations, which --chat reads");
  VIADUCT_CHECK(ConfigError, arguments.chat || arguments.images.empty(),
                "--image {}: a picture is part of a conversation, which --chat reads",
                arguments.images.front());
}

Prepared prepare(Arguments& arguments, const Launch& launch) {
  const SamplingOptions sampling = arguments.sampling.over({});
  check(sampling);
  check_options(arguments);
  move_overrides(arguments.prompts, arguments.inference.overrides);
  PromptLines lines = read_lines(arguments, launch);
  Prepared prepared;
  prepared.setup = open_generation(arguments, "viaduct generate", "prompts");
  check_started(prepared.setup.config.dist, launch);
  const RunSetup& setup = prepared.setup;
  take_lines(prepared, arguments, std::move(lines));
  prepared.prompts = make_prompts(prepared.texts, *setup.tokenizer, setup.model,
                                  arguments.max_new_tokens, adapter_names(setup));
  warn_about_adapters(prepared);
  note_longrope(setup.model.rotary, "texts of up to", longest(prepared.prompts),
                prepared.setup.notes);
  prepared.work.batches = batches_by_length(prepared.prompts, arguments.batch_size);
  prepared.work.stops = arguments.stops;
  GenerateOptions& options = prepared.work.options;
  options.sampling = sampling;
  options.seed = arguments.seed;
  return prepared;
}

void run_rank(const Prepared& prepared, const Arguments& arguments,
              std::shared_ptr<Communicator> world) {
  const bool json = arguments.json;
  const bool leads = world->rank() == 0;
  if (leads) log_notes(prepared.setup);
  const RankDevice rank = make_rank_device(prepared.setup.config.dist);
  GenerateOutput output(prepared.texts, prepared.prompts,
                        {.json = json, .answers = arguments.chat});
  GenerationHooks hooks;
  if (leads) hooks.started = [&] { output.begin(); };
  hooks.piece = [&](int64_t, const std::string& text) { output.piece(text); };
  hooks.finished = [&](const GeneratedText& text) { output.finished(text); };
  const double seconds = run_generation(prepared.setup, prepared.work, *rank.device, rank.ops,
                                        std::move(world), hooks);
  if (leads && !json && ::isatty(STDERR_FILENO) == 1) {
    say("{}, {:.1f} tokens/s\n", counted(output.tokens(), "token"),
        static_cast<double>(output.tokens()) / std::max(seconds, 1e-9));
  }
}

int run(Arguments arguments) {
  Launch launch;
  const Prepared prepared = before_ranks([&] {
    if (!arguments.dry_run) launch = launch_of_process();
    arguments.inference.dist = launch_defaults(launch, {{}, arguments.inference.overrides});
    return prepare(arguments, launch);
  });
  if (arguments.dry_run) {
    print_memory(dry_run_generation(prepared.setup, prepared.work), "the generation",
                 arguments.json);
    return 0;
  }
  run_ranks(prepared.setup.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    run_rank(prepared, arguments, std::move(world));
  });
  return 0;
}

}  // namespace

Subcommand add_generate(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("generate", "Sample text from a model");
  add_model_option(*app, arguments->inference.model);
  app->add_option("--prompt", arguments->prompts,
                  "Texts to continue; tokens that the tokenizer puts before a text are added");
  app->add_option("--prompt-file", arguments->prompt_file,
                  "Prompts from a file: one a line, or JSONL (.jsonl, .json) with the field "
                  "prompt, and adapter (a NAME of --adapter); -: standard input")
      ->check(not_empty());
  app->add_option("--max-new-tokens", arguments->max_new_tokens,
                  "Maximum new tokens; by default 128, or fewer if the model has no more positions")
      ->check(not_negative());
  add_stops(*app, arguments->stops, "a text");
  add_sampling(*app, arguments->sampling, arguments->seed, "");
  app->add_flag(
      "--chat", arguments->chat,
      "Prompts are conversations, by the model's chat template: JSONL with messages "
      "(optionally tools, chat_template_kwargs, adapter, id), by which every line of a .jsonl or "
      ".json file is read, and of standard input that begins with {; a --prompt or a "
      "line of other text is one message of a user. The answers come out");
  add_talk_options(*app, arguments->talk);
  add_images(*app, arguments->images, "every text of a user that is no line of JSON");
  app->add_option("--batch-size", arguments->batch_size,
                  "Prompts in a batch, per replica of the model")
      ->check(positive())
      ->capture_default_str();
  app->add_flag("--json", arguments->json,
                "One JSON document (many prompts: one a line, in their order): prompt, text, "
                "prompt_tokens, tokens, stop_reason (length, stop_token or stop_string), "
                "stop_token, stop_string, tokens_per_second (of all texts so far); with --chat "
                "also message (the answer) and the line's id; the line's adapter");
  app->add_flag("--dry-run", arguments->dry_run,
                "Print the memory of each rank with all texts at their maximum length; start "
                "nothing");
  app->add_option("OVERRIDES", arguments->inference.overrides,
                  "- (prompts from standard input, one a line, or JSONL), and " +
                      overrides_text(generation_scope("viaduct generate"),
                                     " (ranks that are left over take other prompts)"));
  app->footer(
      "A model with an encoder (T5) reads each prompt there, and its answer comes out.\n"
      "A text ends at a stop token of the tokenizer, generation_config.json or config.json, at a "
      "--stop string,\nor at --max-new-tokens. The text of one prompt is printed as it comes.\n\n"
      "Example:\n  viaduct generate --model runs/quickstart/checkpoints --prompt \"ROMEO:\" "
      "--max-new-tokens 200 --temperature 0.8 --top-k 40");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
