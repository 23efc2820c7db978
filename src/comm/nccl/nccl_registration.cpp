#include "comm/nccl/nccl_registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "comm/nccl/nccl_memory.h"
#include "comm/nccl/nccl_rank.h"

namespace viaduct {
namespace {

/// The connections that the device's memory is registered with; the device ends them before it
/// frees that memory.
class Registrations {
 public:
  Registrations() = default;
  ~Registrations() {
    for (const auto& [rank, on] : all_) rank->deregister(*on);
  }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;
  void add(std::shared_ptr<NcclRank> rank, NcclConnection& on) {
    all_.emplace_back(std::move(rank), &on);
  }

 private:
  std::vector<std::pair<std::shared_ptr<NcclRank>, NcclConnection*>> all_;
};

}  // namespace

NcclRegistration::NcclRegistration(std::shared_ptr<NcclRank> rank,
                                   std::shared_ptr<Communicator> hosts, bool symmetric)
    : rank_(std::move(rank)), hosts_(std::move(hosts)), symmetric_(symmetric) {}

void NcclRegistration::at_operation(NcclConnection& on, CudaDevice& gpu) {
  if (!rank_->wants_memory(on)) return;
  const std::string without = symmetric_ ? no_window(gpu) : "not wanted";
  const bool window = rank_->register_memory(on, gpu.planned_memory(), without.empty());
  gpu.state<Registrations>().add(rank_, on);
  if (!symmetric_ || window || hosts_->rank() > 0) return;
  log_info("ddp.nccl_ub: the memory that is registered with {} is not symmetric: {}", on.name(),
           without.empty() ? "NCCL cannot map it between these GPUs" : without);
}

std::string NcclRegistration::no_window(const CudaDevice& gpu) {
  if (!nccl_has_symmetric_memory()) return "this NCCL has no symmetric memory";
  if (!differing_plans_) {
    const std::vector<std::string> all = hosts_->host().texts_on_all(
        fmt::format("{:016x}, {} bytes", gpu.plan_fingerprint(), gpu.planned_memory().second));
    const auto differs =
        std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all[0]; });
    differing_plans_ = differs == all.end()
                           ? std::string()
                           : fmt::format(
                                 "rank {} of the group has it at other places ({}) than "
                                 "rank 0 ({})",
                                 differs - all.begin(), *differs, all[0]);
  }
  return *differing_plans_;
}

}  // namespace viaduct
