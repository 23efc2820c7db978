// viaduct probe: one forward and backward (or N optimizer steps) on a given batch, everything
// dumped under Hugging Face's names.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "before_ranks.h"
#include "checkpoint/safetensors_writer.h"
#include "model_options.h"
#include "number_checks.h"
#include "override_scope.h"
#include "probe/probe_setup.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/same_settings.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

/// Before the work, not after it.
void check_output(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path folder =
      file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  VIADUCT_CHECK(ConfigError, std::filesystem::is_directory(folder, error),
                "--out {}: there is no folder {}", file.string(), folder.string());
  VIADUCT_CHECK(ConfigError, !std::filesystem::is_directory(file, error),
                "--out {}: is a folder, expected the name of a file", file.string());
}

OverrideScope scope() {
  return {"viaduct probe",
          {"model", "comm_overlap", "ddp", "dist", "memory", "mixed_precision", "optimizer", "peft",
           "rng", "scheduler", "train.global_batch_size", "train.micro_batch_size"}};
}

int run(ProbeRequest request, const std::filesystem::path& out) {
  check_output(out);
  Launch launch;
  const ProbeSetup setup = before_ranks([&] {
    scope().check(request.overrides);
    launch = launch_of_process();
    request.dist = launch_defaults(launch, {{}, request.overrides});
    ProbeSetup prepared = prepare_probe(request);
    check_started(prepared.config.dist, launch);
    return prepared;
  });
  std::map<std::string, Tensor> dump;
  run_ranks(setup.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    if (leads) {
      for (const std::string& note : setup.model.notes) log_warning("{}", note);
      for (const std::string& note : setup.notes) log_warning("{}", note);
    }
    check_same_settings(world->host(), setup.config);
    const RankDevice rank = make_rank_device(setup.config.dist);
    auto values = run_probe(*rank.device, rank.ops, setup.model, *setup.weights, *setup.batch,
                            setup.settings, std::move(world));
    if (leads) dump = std::move(values);
  });
  if (dump.empty()) return 0;  // a process of another rank than 0
  write_safetensors(out, dump);
  std::FILE* report = out == "-" ? stderr : stdout;  // the file itself has standard output
  const Tensor& loss = dump.at("loss");
  const std::string tensors = counted(std::ssize(dump), "tensor");
  if (request.train) {
    fmt::print(report, "loss {:.6f} at step 1, {:.6f} at step {}; {} in {}\n",
               loss.data<float>()[0], loss.data<float>()[loss.elements() - 1], loss.elements(),
               tensors, out.string());
  } else {
    fmt::print(report, "loss {:.6f}; {} in {}\n", *loss.data<float>(), tensors, out.string());
  }
  return 0;
}

}  // namespace

Subcommand add_probe(CLI::App& root) {
  auto request = std::make_shared<ProbeRequest>();
  auto out = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand(
      "probe",
      "One forward and backward on a given batch: logits, loss and all gradients under Hugging "
      "Face names");
  add_model_option(*app, request->model);
  app->add_option(
         "--batch", request->batch,
         "Safetensors file with input_ids [B,S] and optionally labels (not shifted; -100 "
         "is ignored), position_ids, attention_mask, document_ids or cu_seqlens, of a model "
         "with an encoder decoder_input_ids, of a model with images pixel_values "
         "[images,channels,side,side]; with --train batch.input_ids [N,B,S] and the like")
      ->required();
  app->add_option("--adapter", request->adapter,
                  "Folder of an adapter, as PEFT or a run with adapters writes it: the model is "
                  "frozen, and gradients and final.NAME are the adapter's, under PEFT's names")
      ->check(not_empty());
  app->add_option("--out", *out, "Safetensors file to write")->check(new_path())->required();
  app->add_flag("--train", request->train,
                "N optimizer steps instead: loss [N], grad_norm [N] and final.NAME");
  app->add_flag("--hidden", request->hidden, "Also hidden.*: the residual stream of each layer");
  app->add_flag("--weights", request->weights, "Also weight.NAME: the weights as read");
  app->add_option("OVERRIDES", request->overrides,
                  "section.field=value. FP32, a constant learning rate without warm-up, and the "
                  "whole batch at once unless they say otherwise; " +
                      scope().help());
  app->footer(
      "With mixed_precision=fp16_mixed a loss scale that overflows is halved and the step repeated,"
      "\nfrom mixed_precision.initial_loss_scale down, so that every step counts.\n\n"
      "Example:\n  viaduct probe --model models/gpt2 --batch batch.safetensors --out "
      "dump.safetensors mixed_precision=bf16_mixed train.micro_batch_size=1");
  return {app, [request, out] { return run(*request, *out); }};
}

}  // namespace viaduct::cli
