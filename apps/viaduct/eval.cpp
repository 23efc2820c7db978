// viaduct eval: loss, perplexity and bits per byte of a text or a data set.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "before_ranks.h"
#include "dry_run_stages.h"
#include "engine/dry_run.h"
#include "number_checks.h"
#include "override_scope.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "standard_streams.h"
#include "subcommands.h"
#include "train/text_evaluation.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  TextEvaluationRequest request;
  bool json = false, dry_run = false;
};

OverrideScope scope() {
  return {"viaduct eval",
          {"comm_overlap", "dist", "mixed_precision", "model", "tokenizer.tokenizer_model",
           "train.micro_batch_size"}};
}

/// `row`: tokens of a row, which bound the context of a token.
void print_score(const TextScore& score, int64_t row, bool json) {
  if (json) {
    nlohmann::ordered_json document{{"loss", score.loss},
                                    {"perplexity", score.perplexity},
                                    {"bits_per_byte", nullptr},
                                    {"tokens", score.tokens},
                                    {"seconds", score.seconds}};
    if (score.bits_per_byte) document["bits_per_byte"] = *score.bits_per_byte;
    fmt::print("{}\n", document.dump());
    return;
  }
  fmt::print("{:<16} {:>12.6f}\n", "loss", score.loss);
  fmt::print("{:<16} {:>12.6g}\n", "perplexity", score.perplexity);
  if (score.bits_per_byte) fmt::print("{:<16} {:>12.6f}\n", "bits per byte", *score.bits_per_byte);
  fmt::print("{:<16} {:>12}\n", "tokens scored", score.tokens);
  fmt::print("{:<16} {:>12}\n", "tokens of a row", row);
  fmt::print("{:<16} {:>12.1f}\n", "tokens/s",
             static_cast<double>(score.tokens) / std::max(score.seconds, 1e-9));
}

int run(Arguments arguments) {
  Launch launch;
  const TextEvaluation evaluation = before_ranks([&] {
    InferenceRequest& inference = arguments.request.inference;
    scope().check(inference.overrides);
    if (!arguments.dry_run) launch = launch_of_process();
    inference.dist = launch_defaults(launch);
    TextEvaluation prepared = prepare_text_evaluation(arguments.request);
    check_started(prepared.run.config.dist, launch);
    return prepared;
  });
  if (arguments.dry_run) {
    print_memory(dry_run_stages(evaluation.run), "an evaluated micro-batch", arguments.json);
    return 0;
  }
  run_ranks(evaluation.run.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    if (leads) {
      for (const std::string& note : evaluation.run.notes) log_info("{}", note);
    }
    const bool shows = leads && ::isatty(STDERR_FILENO) == 1;
    const RankDevice rank = make_rank_device(evaluation.run.config.dist);
    const TextScore score = evaluate_text(
        evaluation, *rank.device, rank.ops, std::move(world), [&](int64_t done, int64_t of) {
          if (shows) say("\r{} of {} micro-batches{}", done, of, done < of ? "" : "\n");
        });
    if (leads) print_score(score, evaluation.run.config.model.seq_length.value(), arguments.json);
  });
  return 0;
}

}  // namespace

Subcommand add_eval(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  TextEvaluationRequest& request = arguments->request;
  CLI::App* app =
      root.add_subcommand("eval", "Loss, perplexity and bits per byte of a text or a data set");
  app->add_option("--model", request.inference.model,
                  "Hugging Face folder, FILE.gguf, checkpoint or save folder")
      ->required();
  app->add_option("--data", request.data,
                  "A text file, which the model's tokenizer encodes, or PREFIX of a data set "
                  "(PREFIX.bin and PREFIX.idx), whose documents follow each other")
      ->required();
  app->add_option(
         "--sequence-length", request.inference.sequence_length,
         "Tokens of a row; by default model.seq_length, else 2048 or the model's positions")
      ->check(positive());
  app->add_option("--stride", request.stride,
                  "Tokens between the starts of two rows; default: the sequence length. With a "
                  "smaller stride rows overlap, and a token is scored in the first row that has it")
      ->check(positive());
  app->add_flag("--json", arguments->json,
                "One JSON document: loss, perplexity, bits_per_byte (null without a tokenizer), "
                "tokens, seconds");
  app->add_flag("--dry-run", arguments->dry_run, "Print the memory of each rank; start nothing");
  app->add_option(
      "OVERRIDES", request.inference.overrides,
      "section.field=value, such as mixed_precision=fp32 (default: the type of the weights), "
      "dist.ranks=2 model.tensor_model_parallel_size=2; " +
          scope().help());
  app->footer(
      "Every token but the first is scored once, given the tokens before it in its row. Bits per "
      "byte\nrelate to the bytes of the text of the scored tokens.\n\n"
      "Example:\n  viaduct eval --model runs/quickstart/checkpoints --data "
      "data/tinyshakespeare.txt "
      "--sequence-length 256 --stride 128");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
