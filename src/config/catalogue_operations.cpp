// Planned knobs of running: loop, logging, profiling, checkpoints, resilience.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kCollector[] = {
    {"manual_gc", "bool", "true", "", "Garbage is collected on all ranks at the same step.", "", "",
     kNowhere},
    {"manual_gc_interval", "int", "100", "", "Steps between collections.", "needs manual_gc",
     "gc_interval_train", kNowhere},
    {"manual_gc_eval", "bool or int", "true", "", "Collection around evaluation.", "",
     "gc_interval_val", kNowhere},
    {"empty_unused_memory_level", "int", "0", "", "When cached device memory is released.", "", "",
     kNowhere},
    {"train_sync_interval", "int or null", "null", "",
     "Steps between host and device synchronizations.", "", "", kNowhere},
};

constexpr KnobRow kLogging[] = {
    {"log_energy", "bool", "false", "", "Metrics include energy.", ""},
    {"wandb_project", "string or null", "null", "",
     "Weights & Biases project; read metrics.jsonl instead.", ""},
    {"wandb_exp_name", "string or null", "null", "", "Weights & Biases run.", ""},
};

constexpr KnobRow kCheckpoint[] = {
    {"ckpt_format", "string", "viaduct", "viaduct torch_dist torch torch_dcp fsdp_dtensor",
     "Checkpoint container; only one exists (`viaduct convert` writes Hugging Face folders).", ""},
    {"non_persistent_save_interval", "int or null", "null", "", "Steps between local checkpoints.",
     ""},
    {"non_persistent_ckpt_type", "string or null", "null", "global local in_memory",
     "Where local checkpoints are stored.", ""},
    {"replication", "bool", "false", "", "Local checkpoints are copied to other nodes.", ""},
};

constexpr KnobRow kRng[] = {
    {"te_rng_tracker", "bool", "false", "", "Random state of another library.", "", "", kNowhere},
    {"inference_rng_tracker", "bool", "false", "", "Random state for inference.", "", "", kNowhere},
    {"data_parallel_random_init", "bool", "false", "",
     "Ranks start from different weights; never the case here.", "", "", kNowhere},
};

constexpr KnobRow kFaults[] = {
    {"enable_ft_package", "bool", "false", "", "Heartbeats and timeouts watched by a launcher.",
     ""},
};
constexpr KnobRow kStraggler[] = {
    {"log_straggler", "bool", "false", "", "Slow ranks are reported.", ""},
};
constexpr KnobRow kNvrx[] = {
    {"enabled", "bool", "false", "", "Slow ranks are scored and reported.", ""},
};
constexpr KnobRow kRestart[] = {
    {"enabled", "bool", "false", "", "A failed rank is restarted inside its process.", ""},
};

}  // namespace

std::vector<KnobTable> operations() {
  return {
      {"train", "", "memory is managed without a collector", kCollector},
      {"logger", "", "more metrics", kLogging},
      {"checkpoint", "", "other containers, local and parallel checkpoints", kCheckpoint},
      {"rng", "", "random numbers are counter-based, there is no state to track", kRng},
      {"ft", "Fault tolerance.", "operations at scale", kFaults},
      {"straggler", "Slow ranks.", "operations at scale", kStraggler},
      {"nvrx_straggler", "Slow ranks, scored.", "operations at scale", kNvrx},
      {"inprocess_restart", "Restart inside the process.", "operations at scale", kRestart},
  };
}

}  // namespace viaduct::catalogue_tables
