// Planned knobs of tensor, context, pipeline and data parallelism, and of fully sharded weights.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kMessages[] = {
    {"batch_p2p_sync", "bool", "true", "",
     "Device synchronization after grouped sends and receives.", "", "", kNowhere},
};

constexpr KnobRow kHandles[] = {
    {"tp_comm_bootstrap_backend", "string", "nccl", "nccl mpi gloo",
     "How buffer handles are exchanged at start.", "", "", kNowhere},
};

constexpr KnobRow kRegistration[] = {
    {"fsdp_manual_registration", "bool", "false", "",
     "Fully sharded buffers are registered at one point.", "", "", kNowhere},
};

constexpr KnobRow kFullySharded[] = {
    {"megatron_fsdp_version", "int", "1", "", "Version of Megatron's implementation.", "", "",
     kNowhere},
};

constexpr KnobRow kInit[] = {
    {"use_decentralized_pg", "bool", "false", "", "Groups as values instead of globals.", "", "",
     kNowhere},
};

}  // namespace

std::vector<KnobTable> parallel() {
  return {
      {"model", "", "streams wait for messages by events, and the host does not wait", kMessages},
      {"model", "",
       "ranks exchange no handles of buffers: what NCCL needs to connect goes over the hosts' own "
       "connections",
       kHandles},
      {"ddp", "", "the memory of a run is one block, which ddp.nccl_ub registers once",
       kRegistration},
      {"ddp", "", "there is one implementation of fully sharded weights", kFullySharded},
      {"dist", "", "groups of ranks are always values", kInit},
  };
}

}  // namespace viaduct::catalogue_tables
