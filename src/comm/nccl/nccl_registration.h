#pragma once
// The run's planned memory, registered with the connections of a group: as symmetric windows where
// all ranks have it at the same places, otherwise each rank's for itself.

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "device/cuda/cuda_device.h"

namespace viaduct {

class NcclConnection;
class NcclRank;
enum class MemoryRegistration;

class NcclRegistration {
 public:
  /// `hosts`: of the group's ranks. `symmetric`: windows are wanted.
  NcclRegistration(std::shared_ptr<NcclRank> rank, std::shared_ptr<Communicator> hosts,
                   bool symmetric);
  /// Before an operation of the connection: registers the memory at the first one, if the
  /// connection wants it. All of its ranks reach that operation in one order. CommError unless the
  /// outcome is the same on all of them.
  void at_operation(NcclConnection& on, CudaDevice& gpu);

 private:
  void check_alike(const NcclConnection& on, MemoryRegistration mine);
  /// Why memory is not registered as a window; "" if it is. All ranks of the group call it.
  std::string no_window(const CudaDevice& gpu);

  std::shared_ptr<NcclRank> rank_;
  std::shared_ptr<Communicator> hosts_;
  const bool symmetric_;
  std::optional<std::string> differing_plans_;  // "": those of the group's ranks are equal
};

}  // namespace viaduct
