#include "run/train_config.h"

#include "run/nsys_command.h"

namespace viaduct {
namespace {
constexpr std::string_view kEpochs =
    "documents and samples are shuffled over all epochs that the run needs, and their number "
    "differs now: rows come in a different order from here on, some a second time, some not at all";
constexpr std::string_view kBatch =
    "the run continues at the same row of the data; a step takes this many rows from here on, and "
    "the learning rate's schedule counts rows";

// Far above any real run, and low enough that products do not overflow.
constexpr double kMostSteps = 1e10, kMostRows = 1 << 24, kMostRowsOfARun = 1e10;

}  // namespace

FieldGroup train_fields(TrainConfig& config) {
  FieldGroup group("train", "The length of a run and its batch.");
  group.field("train_iters", config.train_iters, "Optimizer steps of the run.")
      .range(1, kMostSteps)
      .in("steps")
      .alias("recipe.trainer.max_steps")
      .on_resume(resume::said(kEpochs));
  group
      .field("train_samples", config.train_samples,
             "Length of the run in rows instead of steps: it ends with the last step whose rows "
             "are among them; null: train_iters applies.")
      .range(1, kMostRowsOfARun)
      .in("rows")
      .constraint("excludes train_iters")
      .on_resume(resume::said(kEpochs));
  group
      .field("global_batch_size", config.global_batch_size,
             "Rows of an optimizer step, over all ranks.")
      .range(1, kMostRows)
      .in("rows")
      .alias("recipe.data.global_batch_size")
      .constraint("divisible by micro_batch_size · dp")
      .on_resume(resume::said(kBatch));
  group
      .field("rampup_batch_size", config.rampup_batch_size,
             "[start, increment, rows]: steps take `start` rows at first and `increment` more at a "
             "time, in equal parts of the first `rows` of the data, until they take "
             "global_batch_size.")
      .range(0, kMostRowsOfARun)
      .in("rows")
      .constraint(
          "increments lead from start to global_batch_size; each size divisible by "
          "micro_batch_size · dp")
      .on_resume(resume::said(kBatch));
  group
      .field("decrease_batch_size_if_needed", config.decrease_batch_size_if_needed,
             "A batch that micro_batch_size · dp does not divide is rounded down to one that it "
             "does; false: it is an error.")
      .on_resume(resume::said(kBatch));
  group
      .field("micro_batch_size", config.micro_batch_size,
             "Rows of one forward and backward on a rank; gradients accumulate over "
             "global_batch_size / (micro_batch_size · "
             "dp) of them. auto (viaduct train): the most that fit in memory, by a "
             "dry run.")
      .range(1, kMostRows)
      .in("rows")
      .alias("recipe.data.micro_batch_size")
      .on_resume(resume::free)
      .decides(LayoutPart::micro_batch);
  group.on_resume(resume::free).of_values();  // what follows says when a run stops
  group
      .field("exit_interval", config.exit_interval,
             "Stop, with a checkpoint, at the next step that this divides.")
      .range(1)
      .in("steps");
  group
      .field("exit_duration_in_mins", config.exit_duration_in_mins,
             "Stop, with a checkpoint, after this time.")
      .positive()
      .in("minutes");
  group
      .field("early_stopping_patience", config.early_stopping_patience,
             "Stop, with a checkpoint, after this many evaluations in a row that are not better "
             "than the best one before; the metric is checkpoint.keep_best, or without that the "
             "validation loss. The evaluation before the first step does not count; null: never.")
      .range(1)
      .in("evaluations")
      .constraint("needs validation data or validation.tasks");
  group.field("nan_loss_action", config.nan_loss_action,
              "What a loss or gradient with NaN or infinity does: `stop` the run, or `skip` the "
              "update and count it.");
  group
      .field("max_skipped_in_a_row", config.max_skipped_in_a_row,
             "With nan_loss_action=skip: the run stops when more than this many updates in a row "
             "are skipped; null: no limit.")
      .range(0)
      .in("steps")
      .idle([&config] {
        return reason_if(config.nan_loss_action != NanAction::skip,
                         stated("train.nan_loss_action", config.nan_loss_action));
      });
  group
      .field("max_skipped_rate", config.max_skipped_rate,
             "With nan_loss_action=skip: the run stops when more than this share of 100 updates is "
             "skipped (the last 100 since the program started, or all of them if there were "
             "fewer); 1: no limit.")
      .range(0, 1)
      .idle([&config] {
        return reason_if(config.nan_loss_action != NanAction::skip,
                         stated("train.nan_loss_action", config.nan_loss_action));
      });
  group.field("skip_train", config.skip_train, "Only evaluate.");
  group
      .field("iterations_to_skip", config.iterations_to_skip,
             "Steps, numbered as in the metrics, whose rows are consumed without training: skips "
             "data that broke a run.")
      .range(1, kMostSteps)
      .in("steps");
  group
      .field("check_weight_hash_across_dp_replicas_interval",
             config.check_weight_hash_across_dp_replicas_interval,
             "Steps between comparisons of the data-parallel ranks' copies of the weights; a copy "
             "that differs stops the run with an error that names tensor and rank; null: never.")
      .range(1)
      .in("steps");
  group.field("exit_signals", config.exit_signals,
              "Signals that stop the run after its step with a checkpoint, beside SIGINT and "
              "SIGTERM, which always do: a batch system sends one ahead of its time limit (Slurm: "
              "`--signal=USR1@300`). A signal that is ignored when the run starts (nohup) stays "
              "ignored.");
  return group;
}

FieldGroup validation_fields(ValidationConfig& config) {
  FieldGroup group("validation", "Evaluation during training.");
  group.on_resume(resume::free).of_values();
  group.field("eval_interval", config.eval_interval, "Steps between evaluations.")
      .range(1)
      .in("steps")
      .alias("TrainingConfig.eval_interval")
      .idle([&config] { return !config.any(); },
            "validation.eval_iters = 0, and there are neither tasks nor prompts");
  group
      .field("eval_iters", config.eval_iters,
             "Global batches of an evaluation, and of the test at the end; 0: none.")
      .range(0, kMostSteps)
      .in("batches")
      .alias("TrainingConfig.eval_iters");
  group
      .field("multiple_validation_sets", config.multiple_validation_sets,
             "Each data set of the validation list is evaluated and reported by itself.")
      .constraint("needs a list without weights in dataset.blend_per_split");
  group
      .field("full_validation", config.full_validation,
             "Evaluations, and the test at the end, read every sample of their data once, "
             "regardless of eval_iters.")
      .constraint("excludes dataset.mock and a validation or test blend with weights");
  group
      .field("tasks", config.tasks,
             "File of tasks (JSONL, as of `viaduct eval --tasks`) that each evaluation scores; "
             "null: none.")
      .constraint("needs a tokenizer");
  group
      .field("sample_prompts", config.sample_prompts,
             "File of prompts (one a line, or JSONL with `prompt` or `messages`) that the model "
             "answers at each evaluation, with the most probable tokens: messages of a user, by "
             "the chat template, where data are conversations that have one, else texts that it "
             "continues; null: none.")
      .constraint(
          "needs a tokenizer; excludes context parallelism, stages of an encoder's own and "
          "comm_overlap.tp_comm_overlap");
  group
      .field("sample_tokens", config.sample_tokens,
             "New tokens of an answer to sample_prompts, at most.")
      .range(1)
      .in("tokens")
      .idle([&config] { return !config.sample_prompts; }, "validation.sample_prompts is null");
  return group;
}

FieldGroup logger_fields(LoggerConfig& config) {
  FieldGroup group("logger", "What a run reports, and where.");
  group.on_resume(resume::free).of_values();
  group.field("log_interval", config.log_interval, "Steps between lines of metrics.")
      .range(1)
      .in("steps")
      .in_virtual_time();
  group
      .field("log_throughput", config.log_throughput,
             "Metrics include samples/s, tokens/s, TFLOP/s and MFU; false: they do not, and no "
             "peak is measured.")
      .constraint("needed by flops=full")
      .in_virtual_time();
  group
      .field("timing_log_level", config.timing_log_level,
             "Timers of a logged step in its metrics, in seconds: minimum, mean and maximum over "
             "the ranks. "
             "0: none; 1: forward, backward, optimizer, data; 2: also each kind of op, and each "
             "kind of communication with the time spent waiting for it.")
      .range(0, 2);
  group.field("log_params_norm", config.log_params_norm,
              "Metrics of a logged step have the norm of all weights that train after it "
              "(params_norm); beside adapters the frozen ones are not in it.");
  group
      .field("log_num_zeros_in_grad", config.log_num_zeros_in_grad,
             "Metrics of a logged step have the number of zeros in its gradient "
             "(num_zeros_in_grad).")
      .alias("OptimizerConfig.log_num_zeros_in_grad");
  group.field("log_memory_to_tensorboard", config.log_memory_to_tensorboard,
              "TensorBoard also gets the reporting rank's memory in use, by owner, its reserved "
              "memory, and its number of allocations from the system.");
  group
      .field("moe_per_layer_logging", config.moe_per_layer_logging,
             "TensorBoard also gets the figures of each layer's router, over all ranks: largest "
             "load, entropy of the load, dropped share, losses.")
      .alias("TransformerConfig.moe_per_layer_logging")
      .constraint("needs experts and tensorboard_dir");
  group
      .field("tensorboard_dir", config.tensorboard_dir,
             "Folder of TensorBoard event files; auto: `tensorboard` inside checkpoint.save; null: "
             "none.")
      .in_virtual_time();
  group
      .field("flops", config.flops,
             "FLOPs shown: `model` counts causal attention half, `full` adds the uncausal count "
             "beside it.")
      .in_virtual_time();
  return group;
}

FieldGroup profiling_fields(ProfilingConfig& config) {
  FieldGroup group("profiling", "Traces, memory histories, and the window of Nsight Systems.");
  group.on_resume(resume::free).of_values();
  group
      .field("use_nsys_profiler", config.use_nsys_profiler,
             "With dist.device=cuda: a profiler that watches the process records the chosen steps "
             "of the chosen ranks, with a range for each scope of a step. Where none watches it, "
             "the start of the run gives the command line that starts it with Nsight Systems.")
      .alias("NsysPlugin")
      .constraint("excludes trace");
  group
      .field("nsys_trace", config.nsys_trace,
             "What Nsight Systems records: `--trace` of the command line that use_nsys_profiler "
             "gives; [] is none. The command that started the profiler decides.")
      .one_of(nsys_traces())
      .idle([&config] { return !config.use_nsys_profiler; }, "profiling.use_nsys_profiler = false");
  group
      .field("trace", config.trace,
             "Write a trace of ops, communication and memory (Chrome's format, for "
             "ui.perfetto.dev): `trace_rank_00000.json` in checkpoint.save or the current folder.")
      .alias("use_pytorch_profiler")
      .alias("profile")
      .constraint("excludes use_nsys_profiler");
  group
      .field("profile_step_start", config.profile_step_start,
             "Steps before the first recorded one: 10 records from step 11.")
      .range(0)
      .in("steps")
      .alias("profile_start_step")
      .alias("start_step");
  group.field("profile_step_end", config.profile_step_end, "Number of the last recorded step.")
      .range(0)
      .in("steps")
      .alias("profile_end_step")
      .alias("end_step")
      .constraint("above profile_step_start");
  group.field("profile_ranks", config.profile_ranks, "Ranks that are recorded, one file each.")
      .range(0)
      .alias("ranks")
      .constraint("below dist.ranks");
  group.field("record_shapes", config.record_shapes, "Traces have the shapes of operands.")
      .idle([&config] { return !config.trace; }, "profiling.trace is off");
  group.field("record_memory_history", config.record_memory_history,
              "Record every allocation with bytes, owner and lifetime; one file a rank.");
  group
      .field("memory_snapshot_path", config.memory_snapshot_path,
             "Where the memory history goes; `_rank_00000` comes before the extension.")
      .alias("dir")
      .idle([&config] { return !config.record_memory_history; },
            "profiling.record_memory_history is off");
  return group;
}

FieldGroup rng_fields(RngConfig& config) {
  FieldGroup group("rng", "Random numbers of initialization and dropout.");
  group.on_resume(resume::free).of_values();
  group
      .field("seed", config.seed,
             "Seed of every random number but the data order (dataset.random_seed).")
      .range(0);
  return group;
}

}  // namespace viaduct
