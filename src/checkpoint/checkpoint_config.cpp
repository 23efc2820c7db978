#include "checkpoint/checkpoint_config.h"

namespace viaduct {

FieldGroup checkpoint_fields(CheckpointConfig& config) {
  FieldGroup group("checkpoint", "What is saved when, and what a run starts from.");
  group.field("save", config.save,
              "Folder of the run: checkpoints, metrics.jsonl, the resolved config.yaml, "
              "TensorBoard events; null: nothing is "
              "written.");
  group.field("load", config.load,
              "Folder to resume from, with all state; auto: `save`, if it holds a checkpoint; "
              "null: start anew.");
  group.field("pretrained_checkpoint", config.pretrained_checkpoint,
              "Hugging Face folder or checkpoint that fine-tuning starts from: architecture, "
              "tokenizer and weights come from "
              "there, optimizer and data start anew.");
  group
      .field("save_interval", config.save_interval,
             "Steps between checkpoints; 0: only at the end.")
      .range(0)
      .in("steps");
  group
      .field("most_recent_k", config.most_recent_k,
             "Checkpoints that are kept, the newest ones; -1: all.")
      .range(-1)
      .constraint("not 0");
  group.field("async_save", config.async_save,
              "Training goes on while a copy of the state is written.");
  group.field("save_optim", config.save_optim, "Save the optimizer's state.");
  group
      .field("save_rng", config.save_rng,
             "Save the state of random numbers: here the seed alone, the rest follows from the "
             "step.")
      .planned("checkpoints without the seed");
  group.field("load_optim", config.load_optim,
              "Resume the optimizer's state; false: moments and loss scale start anew; step, data "
              "and schedule go on.");
  group.field("load_rng", config.load_rng,
              "Resume random numbers: rng.seed must be the checkpoint's; false: go on with another "
              "seed.");
  group.field("ckpt_step", config.ckpt_step, "Step to resume from; null: the latest.")
      .range(0)
      .in("steps");
  group.field("exit_on_missing_checkpoint", config.exit_on_missing_checkpoint,
              "A `load` without a checkpoint is an error instead of a fresh start.");
  group.field(
      "fallback_to_previous", config.fallback_to_previous,
      "If the latest checkpoint is damaged, resume from the one before, and say so loudly.");
  group.field(
      "allow_changes", config.allow_changes,
      "Settings that may be others than when the checkpoint was saved, though the weights or "
      "the place in the data would then mean something else: names of fields, "
      "dataset.content for other data files, tokenizer.content for another tokenizer.");
  group.field(
      "continue_on_save_failure", config.continue_on_save_failure,
      "A failed save (disk full) is reported and training goes on; the previous checkpoint stays.");
  return group;
}

}  // namespace viaduct
