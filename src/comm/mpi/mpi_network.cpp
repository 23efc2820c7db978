#include "comm/mpi/mpi_network.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/mpi/mpi_handle.h"
#include "comm/world.h"

namespace viaduct {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail<CommError>("{}: {}", call, std::string_view(text.data(), static_cast<size_t>(length)));
}

MpiGroup::MpiGroup(std::unique_ptr<Handle> handle, std::string name, int rank,
                   std::vector<int> world_ranks)
    : handle_(std::move(handle)),
      name_(std::move(name)),
      rank_(rank),
      world_ranks_(std::move(world_ranks)) {}

// The MPI communicator stays until MPI ends: freeing it is collective, and each rank destroys its
// groups at a different time.
MpiGroup::~MpiGroup() = default;

struct Transfers::Requests {
  std::vector<MPI_Request> all;
};

Transfers::Transfers(const MpiGroup& group)
    : group_(group), requests_(std::make_unique<Requests>()) {}

Transfers::~Transfers() {
  give_up();
}

void Transfers::give_up(double seconds) {
  std::vector<MPI_Request>& all = requests_->all;
  for (size_t i = 0; i < transfers_.size(); ++i) {
    if (!transfers_[i].sending && all[i] != MPI_REQUEST_NULL) MPI_Cancel(&all[i]);
  }
  const auto under_way = [&] {
    return std::any_of(all.begin(), all.end(),
                       [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
  };
  const double until = steady_seconds() + seconds;
  std::vector<int> indices(all.size());
  for (bool first = true; under_way() && (first || steady_seconds() < until); first = false) {
    if (!first) std::this_thread::sleep_for(std::chrono::microseconds(50));
    // An error also sets a request to null: no transfer is in flight any more.
    int count = 0;
    if (MPI_Testsome(static_cast<int>(all.size()), all.data(), &count, indices.data(),
                     MPI_STATUSES_IGNORE) != MPI_SUCCESS)
      break;
  }
  for (MPI_Request& request : all)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  transfers_.clear();
  all.clear();
}

void Transfers::add(const Transfer& transfer) {
  if (transfers_.capacity() == 0) {
    const auto likely = static_cast<size_t>(2 * std::min(group_.size(), 16));
    transfers_.reserve(likely);
    requests_->all.reserve(likely);
  }
  transfers_.push_back(transfer);
  requests_->all.push_back(MPI_REQUEST_NULL);
}

void Transfers::send(const void* data, int64_t bytes, int to, int tag, int64_t label) {
  const auto* at = static_cast<const std::byte*>(data);
  do {
    const int64_t piece = std::min(bytes, kMostBytes);
    add({to, piece, true, false, label});
    ++group_.handle().sent;
    check_mpi(MPI_Isend(at, static_cast<int>(piece), MPI_BYTE, to, tag, group_.handle().comm,
                        &requests_->all.back()),
              "MPI_Isend");
    at += piece;
    bytes -= piece;
  } while (bytes > 0);
}

void Transfers::receive(void* data, int64_t bytes, int from, int tag, int64_t label) {
  auto* at = static_cast<std::byte*>(data);
  do {
    const int64_t piece = std::min(bytes, kMostBytes);
    add({from, piece, false, false, label});
    check_mpi(MPI_Irecv(at, static_cast<int>(piece), MPI_BYTE, from, tag, group_.handle().comm,
                        &requests_->all.back()),
              "MPI_Irecv");
    at += piece;
    bytes -= piece;
  } while (bytes > 0);
}

void Transfers::receive_from_any(void* data, int64_t bytes, int tag, int64_t label) {
  add({-1, bytes, false, true, label});
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, MPI_ANY_SOURCE, tag,
                      group_.handle().comm, &requests_->all.back()),
            "MPI_Irecv");
}

bool Transfers::poll(FunctionRef<void(const Transfer&)> done) {
  if (transfers_.empty()) return false;
  Requests& r = *requests_;
  auto& statuses = group_.handle().statuses;
  auto& indices = group_.handle().indices;
  if (statuses.size() < transfers_.size()) {
    statuses.resize(transfers_.size());
    indices.resize(transfers_.size());
  }
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(transfers_.size()), r.all.data(), &count,
                                indices.data(), statuses.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  // `done` may post, but not poll.
  auto& done_now = group_.handle().done;
  done_now.clear();
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(indices[static_cast<size_t>(i)]);
    const MPI_Status& status = statuses[static_cast<size_t>(i)];
    Transfer transfer = transfers_[index];
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
      VIADUCT_CHECK(CommError, status.MPI_ERROR != MPI_ERR_TRUNCATE,
                    "rank {} of the group sent more than the {} bytes expected", transfer.peer,
                    transfer.bytes);
      check_mpi(status.MPI_ERROR, transfer.sending ? "MPI_Isend" : "MPI_Irecv");
    }
    if (!transfer.sending) {
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      VIADUCT_CHECK(CommError, transfer.from_any || bytes == transfer.bytes,
                    "rank {} of the group sent {} bytes where {} were expected", transfer.peer,
                    bytes, transfer.bytes);
      transfer.bytes = bytes;
      transfer.peer = status.MPI_SOURCE;
    }
    done_now.push_back(transfer);
  }
  // MPI has set the requests that are complete to null.
  size_t kept = 0;
  for (size_t i = 0; i < transfers_.size(); ++i) {
    if (r.all[i] == MPI_REQUEST_NULL) continue;
    transfers_[kept] = transfers_[i];
    r.all[kept] = r.all[i];
    ++kept;
  }
  transfers_.resize(kept);
  r.all.resize(kept);
  for (const Transfer& transfer : done_now) done(transfer);
  return true;
}

MpiNetwork::MpiNetwork() {
  int before = 0;
  MPI_Initialized(&before);
  VIADUCT_CHECK(CommError, before == 0, "MPI was already started in this process");
  int level = 0;
  // OpenMPI prints the stack at a bus error, and complains if there is another handler. Ours
  // (base/mapped_faults.h) lets the run end in order instead.
  struct sigaction ours {};
  sigaction(SIGBUS, nullptr, &ours);
  ::signal(SIGBUS, SIG_DFL);
  const int started = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  sigaction(SIGBUS, &ours, nullptr);
  check_mpi(started, "MPI_Init_thread");
  VIADUCT_CHECK(CommError, level >= MPI_THREAD_SERIALIZED,
                "this MPI library cannot be called by more than one thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Comm control = MPI_COMM_NULL, spare = MPI_COMM_NULL, local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control), "MPI_Comm_dup");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &spare), "MPI_Comm_dup");
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  MPI_Comm_size(local, &local_ranks_);
  MPI_Comm_free(&local);
  const auto group = [&](MPI_Comm comm) {
    return std::make_unique<MpiGroup>(
        std::make_unique<MpiGroup::Handle>(MpiGroup::Handle{comm, {}, {}, {}, 0}), "world", rank,
        ranks);
  };
  world_ = group(MPI_COMM_WORLD);
  control_ = group(control);
  spare_ = group(spare);
}

MpiNetwork::~MpiNetwork() = default;

std::unique_ptr<MpiGroup> MpiNetwork::make_group(const MpiGroup& parent,
                                                 std::span<const int> members, std::string name) {
  MPI_Group of_parent = MPI_GROUP_NULL, of_members = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(parent.handle().comm, &of_parent), "MPI_Comm_group");
  check_mpi(
      MPI_Group_incl(of_parent, static_cast<int>(members.size()), members.data(), &of_members),
      "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(parent.handle().comm, of_members, 0, &comm),
            "MPI_Comm_create_group");
  MPI_Group_free(&of_members);
  MPI_Group_free(&of_parent);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(parent.world_rank(member));
  return std::make_unique<MpiGroup>(
      std::make_unique<MpiGroup::Handle>(MpiGroup::Handle{comm, {}, {}, {}, 0}), std::move(name),
      rank, std::move(world_ranks));
}

void MpiNetwork::finish() {
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

void MpiNetwork::end_all() {
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::terminate();  // not reached
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string_view all(text.data(), static_cast<size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

}  // namespace viaduct
