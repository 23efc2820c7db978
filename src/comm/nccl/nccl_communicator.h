#pragma once
// Collectives and messages of GPU memory by NCCL, for ranks with a GPU each.
//
// Sums are NCCL's: along rings and trees, in an order that depends on the number of ranks, the
// bytes and the machine; 16-bit values may be rounded at each step. They are equal on all ranks of
// a group. Sums of integers are exact, including the reproducible sums of gradient norms.

#include <memory>

#include "comm/communicator.h"
#include "comm/nccl_options.h"

namespace viaduct {

/// `hosts` and all its splits, with NCCL on the GPU of the calling thread (`use_gpu`). `hosts`
/// carries what NCCL needs to connect; host groups and barriers keep using it. All
/// ranks call it. Connections are made here, by `split` and by `open_channels`, never later. An
/// operation that is not complete after the timeout is a CommError, like an error of NCCL or of
/// another rank. ConfigError that names the ranks if they have different libraries or generations
/// of GPUs, or if NCCL is too old for the options; DeviceError if there is no NCCL.
std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> hosts,
                                                     double timeout_seconds,
                                                     const NcclOptions& options = {},
                                                     const NcclRankOptions& of_rank = {});

/// "2.28.9" of the library. DeviceError if there is none.
std::string nccl_version();

/// "0000:1b:00.0": the place of the calling thread's GPU on the bus of its machine.
std::string gpu_bus_id();

}  // namespace viaduct
