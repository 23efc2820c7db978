#include "comm/mpi/mpi_failure.h"

#include <algorithm>
#include <cstddef>

namespace viaduct {
namespace {

// Ranks other than 0 send reports; decisions come from rank 0, or from a rank that rank 0 does not
// answer.
constexpr int kReport = 1, kDecision = 2;

}  // namespace

MpiFailureWatch::MpiFailureWatch(const MpiGroup& control)
    : group_(control), incoming_(control), outgoing_(control) {
  listen();
}

void MpiFailureWatch::listen() {
  if (group_.rank() == 0) incoming_.receive_from_any(&heard_, sizeof(Packet), kReport);
  // Decisions may come from any rank: one that rank 0 does not answer sends its own to all.
  else
    incoming_.receive_from_any(&heard_, sizeof(Packet), kDecision);
}

void MpiFailureWatch::poll() {
  outgoing_.poll([](const Transfer&) {});
  incoming_.poll([&](const Transfer& transfer) {
    const int64_t text = transfer.bytes - static_cast<int64_t>(offsetof(Packet, cause));
    const auto bytes = std::clamp<int64_t>(heard_.bytes, 0, std::max<int64_t>(text, 0));
    MpiFailure failure{heard_.rank, std::string(heard_.cause.data(), static_cast<size_t>(bytes))};
    listen();
    if (!first_) decide(std::move(failure));
  });
}

void MpiFailureWatch::fill(int rank, std::string_view cause) {
  said_.rank = rank;
  said_.bytes = static_cast<uint32_t>(std::min(cause.size(), said_.cause.size()));
  std::copy_n(cause.begin(), said_.bytes, said_.cause.begin());
}

void MpiFailureWatch::decide(MpiFailure failure) {
  first_ = std::move(failure);
  if (group_.rank() == 0) proclaim(first_->cause);
}

void MpiFailureWatch::report(std::string_view cause) {
  if (first_) return;
  if (group_.rank() == 0) return decide({0, std::string(cause)});
  fill(group_.rank(), cause);
  outgoing_.send(&said_, sizeof(Packet), 0, kReport);
}

void MpiFailureWatch::proclaim(std::string_view cause) {
  if (!first_) first_ = MpiFailure{group_.rank(), std::string(cause)};
  // MPI may still read the packet of a report that rank 0 never received: the content stays the
  // same.
  fill(first_->rank, cause);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    outgoing_.send(&said_, sizeof(Packet), rank, rank == 0 ? kReport : kDecision);
  }
}

void MpiFailureWatch::give_up() {
  incoming_.give_up();
  outgoing_.give_up();
}

}  // namespace viaduct
