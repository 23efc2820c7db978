// Fields of what a run reads and writes: data sets, adapters, checkpoints.

#include "support/field_walk_tables.h"

namespace viaduct::test {
namespace field_walk {

std::vector<FieldCase> data_cases() {
  const Overrides both = kData + Overrides{"dataset.blend=[$CORPUS_A, $CORPUS_B]"};
  const Overrides eod = kData + Overrides{"dataset.eod_id=999", "dataset.eod_mask_loss=true"};
  const Overrides chat{"dataset.mock=false", "dataset.blend=[$CHAT]", "dataset.split=80,20,0"};
  const Overrides packed = chat + Overrides{"dataset.packed_sequence_size=32"};
  return {
      {"dataset.blend",
       "[$CORPUS_B]",
       kNumbers,
       kData,
       {"[/no/such/file]", "[0.3, $CORPUS_A, x, $CORPUS_B]"}},
      {"dataset.blend_per_split",
       "[[$CORPUS_A], null, null]",
       kNumbers,
       {"dataset.mock=false", "model.vocab_size=1024",
        "dataset.blend_per_split=[[$CORPUS_B], null, null]"},
       {"[[$CORPUS_A]]"}},
      {"dataset.split", "50,50,0", kNumbers, kData, {"banana", "0,0,0"}},
      {"dataset.sequence_length",
       "16",
       kRecord,
       {"model.seq_length=auto", "dataset.sequence_length=32"},
       {},
       {"0"}},
      {"dataset.random_seed", "7", kNumbers, kData},
      {"dataset.reset_position_ids", "true", kNumbers, eod},
      {"dataset.reset_attention_mask", "true", kNumbers, eod},
      {"dataset.eod_mask_loss", "true", kNumbers, kData + Overrides{"dataset.eod_id=999"}},
      {"dataset.eod_id", "1", kNumbers, eod},
      {"dataset.mock", "false", kSaid},
      {"dataset.mid_level_dataset_surplus", "1", kNumbers,
       kData +
           Overrides{"dataset.blend=[0.5, $CORPUS_A, 0.5, $CORPUS_C]", "dataset.split=100,0,0"}},
      {"dataset.packed_sequence_size", "32", kNumbers, chat},
      {"dataset.packing_algorithm", "sequential", kNumbers, packed},
      {"dataset.packing_split", "true", kNumbers,
       packed + Overrides{"dataset.packing_algorithm=sequential"}},
      {"dataset.pad_cu_seqlens",
       "true",
       kNumbers,
       packed,
       {},
       {},
       "unit/data/conversation_dataset_test.cpp",
       "PadCuSeqlensMakesRowsOfEquallyManyDocuments"},
      {"dataset.pad_seq_to_mult", "8", kNumbers, packed, {"5"}},
      {"dataset.answer_only_loss", "false", kNumbers, chat},
      {"dataset.enable_offline_packing",
       "true",
       kNumbers,
       chat,
       {},
       {},
       {},
       {},
       {"dataset.offline_packing_specs={packed_sequence_size: 32}"}},
      {"dataset.offline_packing_specs",
       "{packed_sequence_size: 32}",
       kNumbers,
       chat,
       {"{packed_train_data_path: x}", "{banana: 1}"}},
      {"dataset.packed_sequence_specs",
       "{packed_sequence_size: 32}",
       kNumbers,
       chat,
       {"{packed_metadata_path: x}", "{banana: 1}"}},
      {"tokenizer.vocab_size",
       "255",
       kRecord,
       {"model.vocab_size=auto", "tokenizer.vocab_size=127"}},
      {"tokenizer.vocab_extra_ids",
       "64",
       kRecord,
       {"model.vocab_size=auto", "tokenizer.vocab_size=127"}},
      {"tokenizer.tokenizer_model", "$TOKENIZER", kFiles, {"model.vocab_size=2048"}, {"/no/such"}},
  };
}

std::vector<FieldCase> adapter_cases() {
  return {
      {"peft.scheme", "lora", kNumbers, {}},
      {"peft.adapter", "$ADAPTER", kNumbers, {}, {"/no/such/folder"}},
      {"peft.target_modules", "[q_proj, linear_fc1]", kNumbers, kLora, {"[banana]", "[]"}},
      {"peft.exclude_modules", "[down_proj]", kNumbers, kLora, {"[banana]", "[all-linear]"}},
      {"peft.dim", "2", kNumbers, {"peft.scheme=lora"}, {"1000000"}},
      {"peft.alpha", "8", kNumbers, kLora},
      {"peft.rslora", "true", kNumbers, kLora},
      {"peft.rank_pattern", "{q_proj: 2}", kNumbers, kLora, {"{q_proj: 0}", "{'(': 2}"}},
      {"peft.alpha_pattern", "{q_proj: 2}", kNumbers, kLora, {"{q_proj: 0}"}},
      {"peft.lora_A_init_method", "xavier", kNumbers, kLora},
      {"peft.base_format", "nf4", kNumbers, kLora, {"banana"}},
      {"peft.lora_plus_ratio", "16", kNumbers, kLora},
      {"peft.dropout", "0.3", kNumbers, kLora, {"1", "-0.1"}},
      {"peft.train", "[norm]", kNumbers, kLora, {"[banana]", "[q_proj]"}},
  };
}

std::vector<FieldCase> checkpoint_cases() {
  const Overrides changed = kResume + Overrides{"model.layernorm_epsilon=1e-2"};
  return {
      {"checkpoint.save", "null", kFiles},
      {"checkpoint.load", "$RUN", kNumbers, {}, {}, ""},
      {"checkpoint.pretrained_checkpoint", "$RUN", kNumbers, {}, {"/no/such/folder"}},
      {"checkpoint.save_interval", "1", kFiles},
      {"checkpoint.most_recent_k",
       "1",
       kFiles,
       {"checkpoint.save_interval=1"},
       {"0"},
       "keeps the newest one, and one is saved"},
      {"checkpoint.keep_best", "validation_loss", kFiles, {"validation.eval_iters=1"}, {"banana"}},
      {"checkpoint.async_save", "true", kSaid},
      {"checkpoint.save_optim", "false", kFiles},
      {"checkpoint.load_optim", "false", kNumbers, kResume, {}, kOnlyResumed},
      {"checkpoint.load_rng", "false", kSaid, kResume + Overrides{"rng.seed=7"}, {}, kOnlyResumed},
      {"checkpoint.ckpt_step", "1", kNumbers, kResume, {}, kOnlyResumed},
      {"checkpoint.exit_on_missing_checkpoint",
       "true",
       kSaid,
       {"checkpoint.load=$OUT"},
       {},
       kOnlyResumed},
      {"checkpoint.fallback_to_previous",
       "true",
       kSaid,
       {"checkpoint.load=$DAMAGED", "train.train_iters=4"},
       {},
       kOnlyResumed},
      {"checkpoint.allow_changes",
       "[model.layernorm_epsilon]",
       kSaid,
       changed,
       {"[model.banana]", "[optimizer.lr]"},
       kOnlyResumed},
      {"checkpoint.continue_on_save_failure",
       "true",
       kSaid,
       {},
       {},
       "says what follows a failed save, and none fails",
       "fault/train/train_fault_test.cpp",
       "checkpoint.continue_on_save_failure=true"},
  };
}

}  // namespace field_walk

}  // namespace viaduct::test
