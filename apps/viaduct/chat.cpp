// viaduct chat: talk to a model in the terminal, or answer messages of standard input.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "before_ranks.h"
#include "chat_lines.h"
#include "chat_terminal.h"
#include "generation_options.h"
#include "inference/answers.h"
#include "inference/chat_session.h"
#include "inference/interrupts.h"
#include "model_options.h"
#include "number_checks.h"
#include "run/encoder_support.h"
#include "run/launch.h"
#include "run/longrope_note.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "standard_streams.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

// Long enough for an answer that thinks first; a model that finds no end is stopped.
constexpr int64_t kDefaultAnswerTokens = 2048;

struct Arguments : GenerationArguments {
  std::string system;
};

/// Everything that is known before weights are read.
struct Prepared {
  RunSetup setup;
  AnswerWork work;
  ChatSettings settings;
  std::unique_ptr<const ChatPrompts> prompts;
  std::string sampling_from;  // "generation_config.json", or ""
  bool terminal = false;      // somebody types the messages
  std::optional<Interrupts> interrupts;
};

void check_layout(const RunConfig& config) {
  const int64_t replicas = data_parallel_size(config);
  VIADUCT_CHECK(ConfigError, replicas == 1,
                "dist.ranks: {} ranks hold {} replicas of the model, and a conversation has one; "
                "expected {} (model.tensor_model_parallel_size · "
                "model.pipeline_model_parallel_size)",
                config.dist.ranks, replicas, config.dist.ranks / replicas);
}

void set_sampling(Prepared& prepared, const Arguments& arguments) {
  const GenerationDefaults defaults = read_generation_defaults(prepared.setup.tokenizer_files);
  GenerateOptions& options = prepared.work.options;
  options.sampling = arguments.sampling.over(defaults.sampling.over({}));
  check(options.sampling);
  options.seed = arguments.seed;
  if (defaults.sampling.any()) prepared.sampling_from = defaults.where;
  prepared.settings.max_new_tokens =
      arguments.max_new_tokens.value_or(defaults.max_new_tokens.value_or(kDefaultAnswerTokens));
}

std::unique_ptr<Prepared> prepare(Arguments& arguments, const Launch& launch) {
  check(arguments.sampling.over({}));
  VIADUCT_CHECK(ConfigError, launch.ranks == 1,
                "viaduct chat is one process, and {}={} is set: start it without the launcher; "
                "its ranks are threads (dist.ranks)",
                launch.variable, launch.ranks);
  auto prepared = std::make_unique<Prepared>();
  RunSetup& setup = prepared->setup;
  setup = open_generation(arguments, "viaduct chat", "messages");
  refuse_encoder(setup.model, "viaduct chat");
  check_layout(setup.config);
  prepared->prompts = open_chat_prompts(arguments.talk, setup);
  prepared->settings = {.system = arguments.system,
                        .positions = setup.model.max_positions,
                        .adapters = adapter_names(setup),
                        .images = arguments.images};
  note_longrope(setup.model.rotary, "conversations of up to", setup.model.max_positions,
                setup.notes);
  set_sampling(*prepared, arguments);
  prepared->work.stops = arguments.stops;
  GenerateOptions& options = prepared->work.options;
  options.stop_tokens = stop_tokens(setup, prepared->prompts.get());
  prepared->terminal = ::isatty(STDIN_FILENO) == 1;
  // Installed when the weights are read.
  options.interrupted = [shared = prepared.get()] {
    return shared->interrupts && shared->interrupts->any();
  };
  // Before the weights are read.
  if (!arguments.system.empty()) check_system(*prepared->prompts, arguments.system, "--system");
  return prepared;
}

void greet(const Prepared& prepared) {
  const std::string& from = prepared.sampling_from;
  say("{}: {}{}; seed {}\n", model_name(*prepared.setup.pretrained),
      sampling_text(prepared.work.options.sampling), from.empty() ? "" : " (" + from + ")",
      prepared.work.options.seed);
}

/// Whether all lines were answered.
bool talk(Prepared& prepared, AnswerPrompt answer) {
  ChatSession session(*prepared.prompts, prepared.settings, answer);
  if (!prepared.terminal) return ChatLines(session).run(std::cin);
  prepared.interrupts.emplace();
  say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves\n");
  ChatTerminal(session, *prepared.interrupts).run();
  prepared.interrupts.reset();  // Ctrl-C ends the program from here
  return true;
}

int run(Arguments arguments) {
  Launch launch;
  const std::unique_ptr<Prepared> prepared = before_ranks([&] {
    launch = launch_of_process();
    arguments.inference.dist = launch_defaults(launch, {{}, arguments.inference.overrides});
    return prepare(arguments, launch);
  });
  const RunSetup& setup = prepared->setup;
  PromptRelay relay;
  bool good = true;
  run_ranks(setup.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    if (world->rank() == 0) {
      log_notes(setup);
      greet(*prepared);
    }
    const RankDevice rank = make_rank_device(setup.config.dist);
    run_answers(setup, prepared->work, *rank.device, rank.ops, std::move(world), relay,
                [&](AnswerPrompt answer) { good = talk(*prepared, answer); });
  });
  return good ? 0 : 1;
}

}  // namespace

Subcommand add_chat(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("chat", "Talk to a model");
  add_model_option(*app, arguments->inference.model);
  app->add_option("--system", arguments->system, "The system message that conversations begin with")
      ->check(not_empty());
  add_sampling(*app, arguments->sampling, arguments->seed,
               "; by default as in the model's generation_config.json");
  app->add_option("--max-new-tokens", arguments->max_new_tokens,
                  "Maximum tokens of an answer; by default as in generation_config.json, else " +
                      std::to_string(kDefaultAnswerTokens))
      ->check(positive());
  add_stops(*app, arguments->stops, "an answer");
  add_talk_options(*app, arguments->talk);
  add_images(*app, arguments->images, "the first message");
  app->add_option("OVERRIDES", arguments->inference.overrides,
                  overrides_text(generation_scope("viaduct chat")));
  app->footer(
      "In a terminal, what is typed is a message, and /help lists the commands. Otherwise standard "
      "input has one JSON\nobject a line, {\"role\", \"content\"} for the next message of a "
      "conversation, {\"messages\": […]} for a whole one, and\neach answer is a line of output; "
      "\"adapter\": NAME in a line says which --adapter NAME=DIR answers from there on.\n\n"
      "Example:\n  viaduct chat --model models/SmolLM2-135M-Instruct --system \"You are brief.\"");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
