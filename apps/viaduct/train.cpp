// viaduct train: pretrain, or fine-tune with checkpoint.pretrained_checkpoint.

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "before_ranks.h"
#include "checkpoint/model_folder.h"
#include "data/dataset_files.h"
#include "dry_run_layout.h"
#include "dry_run_report.h"
#include "dry_run_stages.h"
#include "dry_run_target.h"
#include "masked_text.h"
#include "number_checks.h"
#include "rule_report.h"
#include "run/check_conversations.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/unplanned_causes.h"
#include "standard_streams.h"
#include "subcommands.h"
#include "train/fit_micro_batch.h"
#include "train/signals.h"
#include "train/trainer.h"
#include "train/watched_metric.h"
#include "train_simulated.h"

namespace viaduct::cli {
namespace {

struct Options {
  std::string config, target, cluster, adapter;
  RuleOptions rules;
  std::vector<std::string> overrides;
  bool dry_run = false, json = false, full = false;
};

void print_plan(const PlannedMemory& memory, const OffloadReport& offload) {
  say("memory of a step at its fullest, by owner, as planned:\n");
  say_text(memory_text(memory.peak.bytes_by_tag, memory.peak.bytes));
  say("  {:<20} {:>12}: {:.1f} % above what any placement needs; planned in {}\n", "arena",
      format_bytes(memory.plan.arena_bytes),
      100.0 * static_cast<double>(memory.plan.arena_bytes - memory.lower_bound_bytes) /
          static_cast<double>(memory.lower_bound_bytes),
      format_seconds(memory.seconds));
  if (memory.save_copy_bytes > 0) say_text(save_copy_text(memory.save_copy_bytes));
  if (!offload.empty()) say_text(planned_text(offload));
}

/// How the run is split: the first line of its output.
void print_layout(const RunSetup& setup, const Launch& launch) {
  const DistConfig& dist = setup.config.dist;
  const char* places = launch.launcher == Launcher::mpi        ? " (processes of MPI)"
                       : launch.launcher == Launcher::torchrun ? " (processes of torchrun)"
                       : dist.ranks > 1                        ? " (threads of this process)"
                                                               : "";
  say("{}{}: {}; micro-batches of {}\n", counted(dist.ranks, "rank"), places,
      mesh_text(resolve_run(setup.config, setup.model).parallelism.mesh),
      counted(setup.config.train.micro_batch_rows(), "row"));
}

/// Writes `text` to standard output, and reports what the run could not write. The run is done and
/// saved, so a failure here does not fail it.
void print_problems(std::string text, const std::vector<std::string>& lost) {
  for (const std::string& line : lost) log_warning("{}", line);
  if (standard_error_failed()) {
    text +=
        "warning: standard error could not be written; some progress lines and warnings are lost\n";
    for (const std::string& line : lost) text += "warning: " + line + "\n";
  }
  const std::string reason = try_print(text);
  if (!reason.empty())
    log_warning("standard output cannot be written: {}; the lost text:\n{}", reason, text);
}

/// Rank 0's last report when the run is done.
void print_outcome(const RunSetup& setup, const Device& device, const Trainer& trainer) {
  std::map<std::string, int64_t> owners;  // those that hold something
  const MemoryStatistics& memory = device.memory();
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    const int64_t bytes = memory.peak_bytes_by_tag[static_cast<size_t>(tag)];
    if (bytes > 0) owners[std::string(memory_tag_name(static_cast<MemoryTag>(tag)))] = bytes;
  }
  // The plan was printed at the start; it is printed again only if it was not kept.
  std::map<std::string, int64_t> differences = trainer.planned_memory().peak.bytes_by_tag;
  for (const auto& [owner, bytes] : owners) differences[owner] -= bytes;
  const bool kept = std::all_of(differences.begin(), differences.end(), [&](const auto& owner) {
    return std::abs(owner.second) <= memory.peak_bytes / 100;
  });
  if (trainer.made_steps() && !kept) {
    say("memory of the run at its fullest, by owner; it differs from the plan:\n");
    say_text(memory_text(owners, memory.peak_bytes));
  }
  if (memory.unplanned_allocations > 0) {
    const std::string cause = unplanned_causes(setup);
    say("  {} of steps and evaluations had other sizes than the plan's{}; what found no room in "
        "its "
        "arena took {} beside it at most\n",
        counted(memory.unplanned_allocations, "allocation"),
        cause.empty() ? "" : " (" + cause + ")", format_bytes(memory.peak_beside_plan_bytes));
  }
  if (const OffloadReport offload = trainer.offload(); !offload.empty())
    say_text(outcome_text(offload));
  std::string text;
  if (trainer.validations().size() > 1) {
    const auto& [first_step, first] = trainer.validations().front();
    const auto& [last_step, last] = trainer.validations().back();
    text += fmt::format("validation loss: {:.4f} at step {}, {:.4f} at step {}\n", first,
                        first_step, last, last_step);
  }
  if (const auto loss = trainer.test_loss()) text += fmt::format("test loss: {:.4f}\n", *loss);
  if (setup.config.checkpoint.save) {
    text += fmt::format("checkpoints, metrics and config.yaml are in {}\n",
                        *setup.config.checkpoint.save);
  }
  print_problems(text, trainer.log_problems());
}

/// How to give ranks the time to save when mpirun is told to stop; "" where they have it.
std::string notice_advice(const RunConfig& config, const Launch& launch) {
  if (!launch.short_notice || !config.checkpoint.save || config.train.skip_train) return "";
  const auto& named = config.train.exit_signals;
  const bool user_signal =
      std::find(named.begin(), named.end(), WarningSignal::usr1) != named.end();
  return fmt::format(
      "mpirun kills its ranks one second after it passes Ctrl-C or SIGTERM on, which is too soon "
      "for a step and a save; {}`mpirun --mca odls_base_sigkill_timeout 60` waits 60 seconds "
      "before it passes them on, and again before it kills",
      user_signal ? "SIGUSR1 to mpirun stops the run without that, and " : "");
}

/// What Ctrl-C and SIGTERM are answered with, by the first process of a run.
StopAnswer stop_answer(const RunConfig& config, const Launch& launch) {
  StopAnswer answer;
  if (launch.rank != 0) return answer;
  const char* saves = config.train.skip_train ? "the evaluation is ended"
                      : config.checkpoint.save
                          ? "the run stops after this step and saves a checkpoint"
                          : "the run stops after this step; checkpoint.save is "
                            "not set, so nothing is saved";
  answer.descriptor = STDERR_FILENO;
  answer.text = fmt::format(
      "\n{}; a second Ctrl-C or SIGTERM, {} seconds or more after this one, ends it at once "
      "without "
      "saving\n",
      saves, answer.one_request_nanoseconds / 1'000'000'000);
  if (const std::string advice = notice_advice(config, launch); !advice.empty())
    answer.text += advice + "\n";
  return answer;
}

/// What becomes of a run without a folder; "" with one, or where nothing is trained.
std::string unsaved_warning(const RunConfig& config) {
  if (config.checkpoint.save || config.train.skip_train) return "";
  return "checkpoint.save is not set: nothing of this run is kept, neither weights nor metrics";
}

int run_training(const RunSetup& setup, const Launch& launch) {
  const StopSignals signals(setup.config.train.exit_signals, stop_answer(setup.config, launch));
  run_ranks(setup.config.dist, launch, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    if (leads) {
      for (const std::string& note : setup.notes) log_info("{}", note);
      for (const std::string& warning : setup.warnings) log_warning("{}", warning);
      if (const std::string advice = notice_advice(setup.config, launch); !advice.empty())
        log_warning("{}", advice);
      if (const std::string unsaved = unsaved_warning(setup.config); !unsaved.empty())
        log_warning("{}", unsaved);
    }
    const RankDevice rank = make_rank_device(setup.config.dist);
    TrainerHooks hooks;
    hooks.display = leads ? stderr : nullptr;
    hooks.display_is_terminal = leads && ::isatty(STDERR_FILENO) == 1;
    hooks.display_colours = leads && shows_colours(STDERR_FILENO);
    if (launch.launcher != Launcher::none) hooks.ranks_here = launch.local_ranks;
    hooks.stop_requested = [&] { return signals.received() != 0; };
    if (leads) print_layout(setup, launch);
    Trainer trainer(setup, *rank.device, rank.ops, hooks, std::move(world));
    if (leads) print_plan(trainer.planned_memory(), trainer.offload());
    trainer.run();
    if (leads) print_outcome(setup, *rank.device, trainer);
  });
  return 0;
}

/// ConfigError for a save folder that is none, that cannot be made or written to, or whose model a
/// checkpoint would hide.
void check_save_folder(const std::string& save) {
  VIADUCT_CHECK(ConfigError, !save.empty(),
                "checkpoint.save: \"\" is no folder; expected the name of one, or null");
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(save);
  const auto is_there = [&] {  // also as a link that leads nowhere
    return std::filesystem::exists(there, error) || std::filesystem::is_symlink(there, error);
  };
  while (!is_there() && there.has_relative_path()) there = there.parent_path();
  VIADUCT_CHECK(
      ConfigError, std::filesystem::is_directory(there, error),
      "checkpoint.save: {} is {}; expected a folder of this run, or one that does not exist",
      there == std::filesystem::absolute(save) ? save : there.string(),
      std::filesystem::exists(there, error) ? "a file" : "a link to nothing");
  VIADUCT_CHECK(ConfigError, ::access(there.c_str(), W_OK | X_OK) == 0,
                "checkpoint.save: {}: nothing can be written into {}: {}", save, there.string(),
                std::generic_category().message(errno));
  VIADUCT_CHECK(ConfigError, !holds_hugging_face_model(save),
                "checkpoint.save: {} holds a Hugging Face model (config.json and safetensors); "
                "expected a folder of this run, or one that is empty or does not exist",
                save);
}

/// Before any rank starts: ConfigError for data that are not there, and for the save folder.
void check_folders(const RunConfig& config) {
  check_dataset_files(config.dataset);
  if (config.checkpoint.save) check_save_folder(*config.checkpoint.save);
}

/// The same as a warning: a dry run may be made where the data are not.
void warn_of_folders(const RunConfig& config) {
  try {
    check_folders(config);
  } catch (const ConfigError& error) {
    log_warning("a run on this machine would be refused: {}", error.what());
  }
}

/// With a cluster the rules have times, and the changes that they advise are predicted.
void show_dry_run(const Options& options, const RunSetup& setup, const std::string& file,
                  const std::vector<std::string>& overrides) {
  const double begin = steady_seconds();
  rules::EvaluationSettings settings = evaluation_settings(options.rules);
  const DryRunOutput output{options.json, options.full, options.rules.verbose};
  print_dry_run(setup, output, [&](const std::vector<DryRun>& stages) {
    if (options.cluster.empty())
      return rules::evaluate_rules(rules::figures_of(setup, stages), settings);
    const Cluster cluster = load_cluster(options.cluster);
    const PredictionSettings times = prediction_settings(cluster);
    const rules::Figures figures =
        rules::figures_of(setup, cluster, times, predict(setup, cluster, times));
    settings.most_seconds = rule_seconds(options.rules, steady_seconds() - begin);
    return rules::evaluate_rules(figures, settings,
                                 rules::predict_changes(file, overrides, cluster, times));
  });
}

}  // namespace

Subcommand add_train(CLI::App& root) {
  auto options = std::make_shared<Options>();
  CLI::App* app = root.add_subcommand(
      "train", "Pretrain, or fine-tune with checkpoint.pretrained_checkpoint=DIR");
  app->add_option("CONFIG", options->config, "YAML file; optional if overrides give all settings");
  app->add_option("OVERRIDES", options->overrides, "section.field=value, as many as you like");
  app->add_option("--adapter", options->adapter,
                  "Folder of an adapter, as PEFT or a run with adapters writes it, that the run "
                  "continues: peft.adapter=DIR")
      ->check(not_empty());
  CLI::Option* dry_run =
      app->add_flag("--dry-run", options->dry_run,
                    "Resolve and print what was set, what follows from it, what warns, and the "
                    "memory of each rank; start nothing");
  app->add_flag("--full", options->full,
                "With --dry-run: also the whole configuration, the groups of ranks, the layer map, "
                "memory by owner, traffic and kernels")
      ->needs(dry_run);
  app->add_flag("--json", options->json, "With --dry-run: one JSON document, with everything")
      ->needs(dry_run);
  app->add_option(
         "--target", options->target,
         fmt::format(
             "With --dry-run: the target whose kernels, memory and launches to show; one of "
             "{} (default: this machine's cpu)",
             fmt::join(target_names(), ", ")))
      ->needs(dry_run);
  app->add_option(
         "--cluster", options->cluster,
         "With --dry-run: a cluster, as in viaduct plan. Its GPU is the target, and the rules of "
         "the tuning guides are applied to the times and memory predicted on it")
      ->needs(dry_run)
      ->excludes("--target");
  for (CLI::Option* option : add_rule_options(*app, options->rules)) option->needs(dry_run);
  app->footer(
      "Example:\n  viaduct train configs/quickstart.yaml dataset.mock=true model.vocab_size=256 "
      "checkpoint.save=runs/try train.train_iters=20");
  return {app, [options] {
            // A first argument that is an override means there is no file.
            std::string file = options->config;
            before_ranks([&] {
              VIADUCT_CHECK(ConfigError, !file.empty(),
                            "viaduct train: expected a configuration file, overrides "
                            "section.field=value, or both");
            });
            std::vector<std::string> overrides = options->overrides;
            if (file.find('=') != std::string::npos) {
              overrides.insert(overrides.begin(), file);
              file.clear();
            }
            if (!options->adapter.empty()) {
              before_ranks([&] {
                for (const std::string& given : overrides)
                  VIADUCT_CHECK(ConfigError, !given.starts_with("peft.adapter="),
                                "--adapter {} and {}: both name the adapter; expected one of them",
                                options->adapter, given);
              });
              overrides.push_back("peft.adapter=" + options->adapter);
            }
            Launch launch;
            const RunSetup setup = before_ranks([&] {
              if (!options->dry_run) launch = launch_of_process();
              RunConfig defaults;
              defaults.dist = launch_defaults(launch, {file, overrides});
              use_target(options->target, overrides, defaults);
              if (!options->cluster.empty())
                defaults.cuda_target = load_cluster(options->cluster).gpu.architecture;
              LoadedRunConfig loaded = load_run_config(file, overrides, defaults);
              if (std::string cpu = cpu_instead(loaded.config.dist); !cpu.empty())
                loaded.outcome.notes.push_back(std::move(cpu));
              // One process simulates all ranks.
              VIADUCT_CHECK(
                  ConfigError, !loaded.config.dist.simulated() || launch.launcher == Launcher::none,
                  "dist.device=sim: one process simulates all ranks; start it without a launcher, "
                  "with dist.ranks={}",
                  loaded.config.dist.ranks);
              check_started(loaded.config.dist, launch);
              VIADUCT_CHECK(ConfigError,
                            !loaded.config.train.micro_batch_size.is_auto() ||
                                (options->cluster.empty() && options->target.empty()),
                            "train.micro_batch_size: auto is found for the memory of this machine; "
                            "with --target or --cluster expected a number of rows");
              RunSetup prepared = loaded.config.train.micro_batch_size.is_auto()
                                      ? fit_micro_batch(loaded, launch)
                                      : prepare_run(std::move(loaded));
              if (!prepared.config.dist.simulated())
                (options->dry_run ? warn_of_folders : check_folders)(prepared.config);
              std::vector<std::string> warnings = check_conversations(prepared);
              // A run's trainer gives them.
              if (options->dry_run) {
                check_watched_metric(prepared.config);
                std::ranges::move(warnings, std::back_inserter(prepared.warnings));
                if (std::string unsaved = unsaved_warning(prepared.config); !unsaved.empty())
                  prepared.warnings.push_back(std::move(unsaved));
              }
              return prepared;
            });
            if (!options->dry_run)
              return setup.config.dist.simulated() ? simulate_training(setup)
                                                   : run_training(setup, launch);
            show_dry_run(*options, setup, file, overrides);
            return 0;
          }};
}

}  // namespace viaduct::cli
