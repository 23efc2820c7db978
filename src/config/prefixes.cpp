#include "config/prefixes.h"

namespace viaduct {
namespace {

constexpr SectionPrefix kPrefixes[] = {
    {"TransformerConfig", "model"},
    {"GPTProvider", "model"},
    {"GPTModelProvider", "model"},
    {"T5ModelProvider", "model"},
    {"ModelParallelConfig", "model"},
    {"AttnBackend", "model"},
    {"recipe.model", "model"},
    {"recipe.model.config", "model"},
    {"recipe.trainer.strategy", "model"},
    {"recipe.trainer.strategy.ddp", "ddp"},
    {"DistributedDataParallelConfig", "ddp"},
    {"OptimizerConfig", "optimizer"},
    {"recipe.optim", "optimizer"},
    {"recipe.optim.config", "optimizer"},
    {"SchedulerConfig", "scheduler"},
    {"recipe.optim.lr_scheduler", "scheduler"},
    {"MixedPrecisionConfig", "mixed_precision"},
    {"megatronMixedPrecision", "mixed_precision"},
    {"MegatronMixedPrecision", "mixed_precision"},
    {"recipe.trainer.plugins", "mixed_precision"},
    {"CommOverlapConfig", "comm_overlap"},
    {"MegatronCommOverlapCallback", "comm_overlap"},
    {"callback", "comm_overlap"},
    {"TPOverlapCfg", "comm_overlap"},
    {"TransformerLayerTPOverlapCfg", "comm_overlap"},
    {"transformerLayerTPOverlapCfg", "comm_overlap"},
    {"DistributedInitConfig", "dist"},
    {"TrainingConfig", "train"},
    {"recipe.trainer", "train"},
    {"GarbageCollectionCallback", "train"},
    {"garbageCollectionCallback", "train"},
    {"ValidationConfig", "validation"},
    {"ProfilingConfig", "profiling"},
    {"NsysPlugin", "profiling"},
    {"MemoryProfilePlugin", "profiling"},
    {"LoggerConfig", "logger"},
    {"recipe.log", "logger"},
    {"RNGConfig", "rng"},
    {"CheckpointConfig", "checkpoint"},
    {"TokenizerConfig", "tokenizer"},
    {"GPTDatasetConfig", "dataset"},
    {"GPTSFTDatasetConfig", "dataset"},
    {"FinetuningDatasetConfig", "dataset"},
    {"recipe.data", "dataset"},
    {"LoRA", "peft"},
    {"DoRA", "peft"},
    {"recipe.peft", "peft"},
    {"os.environ", "env_vars"},
    // Abbreviations.
    {"TC", "model"},
    {"MC", "model"},
    {"S", "model"},
    {"S.ddp", "ddp"},
    {"DDP", "ddp"},
    {"OPT", "optimizer"},
    {"MP", "mixed_precision"},
    {"CO", "comm_overlap"},
};

}  // namespace

std::span<const SectionPrefix> section_prefixes() {
  return kPrefixes;
}

}  // namespace viaduct
