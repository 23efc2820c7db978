#include "checkpoint/checkpoint_config.h"

namespace viaduct {

FieldGroup checkpoint_fields(CheckpointConfig& config) {
  FieldGroup group("checkpoint", "What is saved and when, and what a run starts from.");
  group.on_resume(resume::free).of_values();
  const auto nothing_saved = [&config] { return !config.save; };
  constexpr const char* kNothingSaved = "checkpoint.save is null: nothing is saved";
  group
      .field("save", config.save,
             "Folder of the run: checkpoints, metrics.jsonl, the resolved config.yaml, "
             "TensorBoard events; null: nothing is written.")
      .in_virtual_time();
  group.field("load", config.load,
              "Folder to resume from, with all state; auto: `save`, if it holds a checkpoint; "
              "null: start from scratch.");
  group
      .field("pretrained_checkpoint", config.pretrained_checkpoint,
             "Hugging Face folder, GGUF file or checkpoint that fine-tuning starts from, or the "
             "name of a model of the Hugging Face Hub in the local cache: architecture, tokenizer "
             "and weights come from there, optimizer and data start fresh.")
      .in_virtual_time();
  group
      .field("save_interval", config.save_interval,
             "Steps between checkpoints; 0: only at the end.")
      .range(0)
      .in("steps")
      .idle(nothing_saved, kNothingSaved);
  group
      .field("most_recent_k", config.most_recent_k,
             "Checkpoints that are kept, the newest ones; -1: all.")
      .range(-1)
      .constraint("not 0")
      .idle(nothing_saved, kNothingSaved);
  group
      .field("keep_best", config.keep_best,
             "Metric of evaluations by which the best checkpoint is kept beside the newest ones; "
             "the file `best` in `save` names it. `validation_loss` (lower is better), or a figure "
             "of a task of validation.tasks: `TASK/acc`, `TASK/acc_norm`, `TASK/acc_bytes` (higher "
             "is better), `TASK/perplexity` (lower is better). An evaluation that is better than "
             "all before saves a checkpoint; null: no checkpoint is better than another.")
      .constraint("a metric that the evaluations have");
  group
      .field("async_save", config.async_save,
             "Training continues while a copy of the state is written.")
      .idle(nothing_saved, kNothingSaved);
  group.field("save_optim", config.save_optim, "Save the optimizer's state.")
      .idle(nothing_saved, kNothingSaved);
  group.field("save_rng", config.save_rng,
              "Save the state of random numbers: here only the seed, the rest follows from the "
              "step. A run that resumes from a checkpoint without it needs load_rng=false.");
  group.field("load_optim", config.load_optim,
              "Resume the optimizer's state; false: moments and loss scale start fresh; step, data "
              "and schedule continue.");
  group.field("load_rng", config.load_rng,
              "Resume random numbers: rng.seed must be the checkpoint's; false: continue with "
              "another seed.");
  group.field("ckpt_step", config.ckpt_step, "Step to resume from; null: the latest.")
      .range(0)
      .in("steps");
  group.field("exit_on_missing_checkpoint", config.exit_on_missing_checkpoint,
              "A `load` without a checkpoint is an error instead of a fresh start.");
  group.field("fallback_to_previous", config.fallback_to_previous,
              "If the latest checkpoint is damaged, resume from the one before, with a warning.");
  group.field(
      "allow_changes", config.allow_changes,
      "Settings that may differ from those of the checkpoint, although the weights or the position "
      "in the data then mean something else: names of fields, "
      "dataset.content for other data files, tokenizer.content for another tokenizer.");
  group
      .field("fully_parallel_save", config.fully_parallel_save,
             "Each data-parallel rank writes a share of the tensors of which all hold copies; "
             "false: the "
             "first of them writes all. Shards of the distributed optimizer are written by their "
             "owners.")
      .idle(nothing_saved, kNothingSaved);
  group.field("fully_parallel_load", config.fully_parallel_load,
              "Each data-parallel rank reads a share of the tensors of which all hold copies, and "
              "sends it to the others; false: each reads all of them.");
  group.field(
      "dist_ckpt_strictness", config.dist_ckpt_strictness,
      "Treatment of a tensor that a resumed run needs and its checkpoint lacks (unexpected), "
      "and of one that the run does not use: raise_all: both are errors; raise_unexpected: the "
      "former is, found before anything is read; assume_ok_unexpected: the same, found by the "
      "rank that reads it; log_all: both are warnings; log_unexpected: the former is. A "
      "missing tensor starts as in a new run. Another shape or type is always an error.");
  group
      .field("continue_on_save_failure", config.continue_on_save_failure,
             "A failed save (disk full) is reported and training continues; the previous "
             "checkpoint stays.")
      .idle(nothing_saved, kNothingSaved);
  return group;
}

}  // namespace viaduct
