#include "comm/nccl/nccl_registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
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
  const MemoryRegistration mine = rank_->register_memory(on, gpu.planned_memory(), without.empty());
  gpu.state<Registrations>().add(rank_, on);
  check_alike(on, mine);
  if (hosts_->rank() > 0) return;
  if (mine == MemoryRegistration::ignored)
    return log_warning("ddp.nccl_ub: NCCL ignores the registration of memory with {}", on.name());
  if (!symmetric_ || mine == MemoryRegistration::symmetric) return;
  log_info("ddp.nccl_ub: the memory that is registered with {} is not symmetric: {}", on.name(),
           without.empty() ? "NCCL cannot map it between these GPUs" : without);
}

void NcclRegistration::check_alike(const NcclConnection& on, MemoryRegistration mine) {
  const char* const text = mine == MemoryRegistration::symmetric    ? "symmetric"
                           : mine == MemoryRegistration::registered ? "registered"
                                                                    : "not registered";
  const std::vector<std::string> all = hosts_->host().texts_on_all(text);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail<CommError>(
        "ddp.nccl_ub: the memory of rank 0 of {} is {}, that of rank {} is {}; expected the same "
        "on all ranks, or ddp.nccl_ub = false",
        on.name(), all[0], rank, all[rank]);
  }
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
