#include "comm/mpi/mpi_operation.h"

#include <fmt/format.h>

namespace viaduct {

MpiOperation::MpiOperation(const MpiGroup& group, std::string_view what, int64_t bytes)
    : group_(group),
      transfers_(group),
      what_(what),
      bytes_(bytes),
      came_(static_cast<size_t>(group.size())) {}

MpiOperation::~MpiOperation() = default;

void MpiOperation::begin() {
  begun_ = true;
  moved_seconds_ = steady_seconds();
  post();
}

bool MpiOperation::advance() {
  const bool moved = transfers_.poll([&](const Transfer& transfer) {
    if (!transfer.sending) came_[static_cast<size_t>(transfer.peer)] = true;
    arrived(transfer);
  });
  const bool over = transfers_.under_way().empty() && finish();
  if (moved || over) {
    moved_seconds_ = steady_seconds();
    if (first_seconds_ == 0) first_seconds_ = moved_seconds_;
  }
  if (over) done_.store(true, std::memory_order_release);
  return moved || over;
}

std::string MpiOperation::name() const {
  return fmt::format("{} over {} ({} ranks, {} bytes) on rank {}", what_, group_.name(),
                     group_.size(), bytes_, group_.rank());
}

std::string MpiOperation::missing_ranks() const {
  const auto size = came_.size();
  std::vector<bool> awaited(size), never(size);
  bool any_never = false;
  for (const Transfer& transfer : transfers_.under_way()) {
    const auto peer = static_cast<size_t>(transfer.peer);
    awaited[peer] = true;
    if (!came_[peer]) any_never = never[peer] = true;
  }
  std::string text;
  for (size_t rank = 0; rank < size; ++rank) {
    if (!(any_never ? never : awaited)[rank]) continue;
    const int world_rank = group_.world_rank(static_cast<int>(rank));
    text += fmt::format("{}rank {}", text.empty() ? "" : ", ", rank);
    if (world_rank != static_cast<int>(rank)) text += fmt::format(" (world rank {})", world_rank);
  }
  if (relays_) text += " (or is itself waiting for one that did not)";
  return text;
}

}  // namespace viaduct
