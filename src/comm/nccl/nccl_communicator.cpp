#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/function_ref.h"
#include "comm/completed_operation.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/nccl/nccl_registration.h"
#include "comm/nccl/nccl_requests.h"
#include "comm/queued_operation.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/gpu_facts.h"

namespace viaduct {
namespace {

constexpr int kOldestVersion = 21800, kOldestWithRegistration = 21900, kOldestWithSwitches = 22700,
              kOldestWithCopyEngines = 22800;

int library_version() {
  int version = 0;
  nccl_calls().ncclGetVersion(&version);
  return version;
}

void check_version(int version, int oldest, std::string_view setting) {
  VIADUCT_CHECK(ConfigError, version >= oldest,
                "{} needs NCCL {}.{} or newer, found {}.{}; expected {} = false, or a newer "
                "libnccl.so.2",
                setting, oldest / 10000, oldest / 100 % 100, version / 10000, version / 100 % 100,
                setting);
}

/// What options need of the library.
void check_options(const NcclOptions& options, int version) {
  for (const auto& [group, one] : options) {
    if (one.in_switches) check_version(version, kOldestWithSwitches, "dist.use_sharp");
    if (one.registers_memory) check_version(version, kOldestWithRegistration, "ddp.nccl_ub");
  }
}

/// Complete when its stream has passed it.
class NcclOperation final : public CommOperation {
 public:
  NcclOperation(std::shared_ptr<NcclRank> rank, NcclConnection& on, int64_t ticket)
      : rank_(std::move(rank)), on_(on), ticket_(ticket) {}
  bool ready() override { return rank_->over(on_, ticket_); }
  /// The host has waited for the stream, which also continues after an abort.
  void wait() override { rank_->check(); }
  void wait_on(int) override { rank_->check(); }

 private:
  std::shared_ptr<NcclRank> rank_;
  NcclConnection& on_;
  int64_t ticket_;
};

/// An operation that a graph does at each of its launches.
class CapturedOperation final : public CommOperation {
 public:
  explicit CapturedOperation(std::shared_ptr<NcclRank> rank) : rank_(std::move(rank)) {}
  bool ready() override { fail<CommError>("{}", kNoResult); }
  void wait() override { fail<CommError>("{}", kNoResult); }
  void wait_on(int) override { rank_->check(); }

 private:
  static constexpr std::string_view kNoResult =
      "NCCL: an operation that is captured into a graph has no result before a launch";
  std::shared_ptr<NcclRank> rank_;
};

/// Hosts talk over `inner`; who comes out of it after an abort hears of that first.
class NcclHosts final : public HostGroup {
 public:
  NcclHosts(std::shared_ptr<NcclRank> rank, std::shared_ptr<Communicator> inner)
      : HostGroup(inner->rank(), inner->size()), rank_(std::move(rank)), inner_(std::move(inner)) {}

 private:
  class Call final : public HostCall {
   public:
    Call(std::shared_ptr<NcclRank> rank, std::unique_ptr<HostCall> inner)
        : rank_(std::move(rank)), inner_(std::move(inner)) {}
    std::string wait() override {
      rank_->check();
      return inner_->wait();
    }

   private:
    std::shared_ptr<NcclRank> rank_;
    std::unique_ptr<HostCall> inner_;
  };
  /// What backends implement for calls of a group, of a group that is another object.
  struct Access : HostGroup {
    static constexpr auto start_of() { return &Access::start; }
  };
  std::unique_ptr<HostCall> start(Request request) override {
    HostGroup& group = inner_->host();
    return std::make_unique<Call>(rank_, (group.*Access::start_of())(std::move(request)));
  }

  std::shared_ptr<NcclRank> rank_;
  std::shared_ptr<Communicator> inner_;
};

ncclUniqueId id_of(const std::string& bytes) {
  ncclUniqueId id;
  VIADUCT_CHECK(CommError, bytes.size() == sizeof id.internal,
                "NCCL: expected an id of {} bytes, got {}", sizeof id.internal, bytes.size());
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

std::string bytes_of(const ncclUniqueId& id) {
  return {id.internal, sizeof id.internal};
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclRank> rank, std::shared_ptr<Communicator> hosts,
                   std::shared_ptr<const NcclOptions> options)
      : Communicator(hosts->name()),
        rank_(std::move(rank)),
        hosts_(std::move(hosts)),
        options_(std::move(options)),
        registration_(rank_, hosts_, my_options().symmetric_memory) {
    connections_[{}].collectives = &connect_all(name(), my_options());
  }
  int rank() const override { return hosts_->rank(); }
  int size() const override { return hosts_->size(); }
  void fail_all(std::string_view cause) override { hosts_->fail_all(cause); }
  std::string failure() const override { return hosts_->failure(); }
  bool can_be_captured() const override { return true; }
  /// NCCL's calls read and write runs of memory.
  bool takes_row_order() const override { return false; }
  void expect_connections(FunctionRef<int64_t()> most) override { rank_->share_out(most); }
  void open_channels(const std::vector<int>& peers, bool message_groups) override;
  void open_connections(const std::vector<OwnConnection>& connections) override;

 private:
  /// Connections of all ranks of the group with the same settings. Only what operations use is
  /// made: each takes memory of the GPU.
  struct Connections {
    NcclConnection* collectives = nullptr;
    NcclConnection* message_groups[2] = {};  // by flow
  };
  /// One direction of a flow between two ranks: messages that wait for each other on the GPU must
  /// not share a connection with those that go the other way.
  using Channel = std::tuple<int, int, Flow>;  // from, to
  static constexpr Flow kFlows[] = {Flow::activations, Flow::gradients};

  /// A connection of all ranks of the group.
  NcclConnection& connect_all(const std::string& name, const NcclGroupOptions& options) {
    const ncclUniqueId mine = rank() == 0 ? rank_->unique_id() : ncclUniqueId();
    const std::string id = hosts_->host().text_of_rank_0(rank() == 0 ? bytes_of(mine) : "");
    return rank_->connect(id_of(id), rank(), size(), name, options);
  }
  NcclConnection& connect_messages(Flow flow, const NcclGroupOptions& options) {
    return connect_all(fmt::format("{}.group.{}", name(), choice_name(flow)), options);
  }

  NcclGroupOptions my_options() const {
    const auto found = options_->find(name());
    return found == options_->end() ? NcclGroupOptions() : found->second;
  }

  /// Those that were opened with the settings that the request names.
  const Connections& opened_for(const CommRequest& request) const {
    const auto found = connections_.find(request.connection);
    VIADUCT_CHECK(CommError, found != connections_.end(),
                  "{} over {}: no connection with its settings was opened (open_connections)",
                  choice_name(request.collective), name());
    return found->second;
  }

  NcclConnection& connection_of(const CommRequest& request) {
    const bool sends = request.collective == Collective::send;
    if (!sends && request.collective != Collective::receive) {
      NcclConnection* const on = opened_for(request).collectives;
      VIADUCT_CHECK(CommError, on != nullptr,
                    "{} over {}: its connection was opened for messages alone (open_connections)",
                    choice_name(request.collective), name());
      return *on;
    }
    const int from = sends ? rank() : request.peer, to = sends ? request.peer : rank();
    const auto found = channels_.find({from, to, request.flow});
    VIADUCT_CHECK(CommError, found != channels_.end(),
                  "{} over {}: no channel from rank {} to rank {} was opened (open_channels)",
                  choice_name(request.collective), name(), from, to);
    return *found->second;
  }

  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    if (request.collective == Collective::barrier) {
      hosts_->barrier();
      return std::make_unique<CompletedOperation>();
    }
    VIADUCT_CHECK(
        CommError,
        request.collective != Collective::broadcast || (request.peer >= 0 && request.peer < size()),
        "broadcast over {} ({} ranks): there is no rank {}", name(), size(), request.peer);
    NcclConnection& on = connection_of(request);
    if (!moves_bytes(request)) return nothing();
    // The lower end of a channel is its rank 0.
    const bool message = is_message(request.collective);
    const int peer = !message ? request.peer : request.peer > rank() ? 1 : 0;
    return give(on, request, [&](const NcclCalls& nccl, ncclComm_t comm, CUstream_st* stream) {
      return call_nccl(nccl, comm, stream, request, peer);
    });
  }

  std::unique_ptr<CommOperation> start_group(const std::vector<CommRequest>& requests) override {
    const CommRequest& first = requests.front();
    NcclConnection* const on = opened_for(first).message_groups[static_cast<size_t>(first.flow)];
    VIADUCT_CHECK(CommError, on != nullptr,
                  "messages over {}: no channel for groups of them was opened (open_channels, "
                  "open_connections)",
                  name());
    if (std::none_of(requests.begin(), requests.end(), moves_bytes)) return nothing();
    return give(*on, first, [&](const NcclCalls& nccl, ncclComm_t comm, CUstream_st* stream) {
      for (const CommRequest& request : requests) {
        if (!moves_bytes(request)) continue;
        const ncclResult_t result = call_nccl(nccl, comm, stream, request, request.peer);
        if (result != ncclSuccess && result != ncclInProgress) return result;
      }
      return ncclSuccess;
    });
  }

  /// Makes the calls of `f` on the stream of `request`, which was announced last, or has the graph
  /// make them that is captured now.
  std::unique_ptr<CommOperation> give(
      NcclConnection& on, const CommRequest& request,
      FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t, CUstream_st*)> f) {
    auto* const gpu = dynamic_cast<CudaDevice*>(device());
    VIADUCT_CHECK(CommError, gpu != nullptr, "{}: NCCL needs a cuda device", name());
    CUstream_st* const stream = gpu->handle(request.stream);
    const std::string what = describe_request(request, name());
    const auto calls = [&](const NcclCalls& nccl, ncclComm_t comm) {
      return f(nccl, comm, stream);
    };
    if (const int64_t capture = gpu->capture_number(); capture > 0) {
      if (rank_->capture(on, capture, what, calls)) {
        gpu->on_launch([rank = rank_, &on, what](CUstream_st* launched) {
          rank->launched(on, launched, "a graph that begins with " + what);
        });
      }
      return std::make_unique<CapturedOperation>(rank_);
    }
    registration_.at_operation(on, *gpu);
    return std::make_unique<NcclOperation>(rank_, on, rank_->run(on, stream, what, calls));
  }

  std::unique_ptr<CommOperation> nothing() const {
    rank_->check();
    return std::make_unique<CompletedOperation>();
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return std::make_shared<NcclHosts>(rank_, hosts_);
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    return std::make_shared<NcclCommunicator>(rank_, hosts_->split(members, std::move(name)),
                                              options_);
  }

  std::shared_ptr<NcclRank> rank_;
  std::shared_ptr<Communicator> hosts_;
  std::shared_ptr<const NcclOptions> options_;
  std::map<ConnectionSettings, Connections> connections_;  // the usual ones: without settings
  std::map<Channel, NcclConnection*> channels_;
  NcclRegistration registration_;
};

void NcclCommunicator::open_channels(const std::vector<int>& peers, bool message_groups) {
  if (size() == 1) return;
  if (message_groups) {
    for (const Flow flow : kFlows)
      connections_[{}].message_groups[static_cast<size_t>(flow)] =
          &connect_messages(flow, my_options());
  }
  // The lower rank of each pair makes the ids of its channels; all ranks receive all of them.
  std::string mine;
  for (const int peer : peers) {
    if (peer < rank()) continue;
    mine += fmt::format("{} ", peer);
    for (int channel = 0; channel < 4; ++channel) mine += bytes_of(rank_->unique_id());
  }
  const std::vector<std::string> all = hosts_->host().texts_on_all(mine);
  // In one order on all ranks, so that both ends of each pair meet.
  for (int lower = 0; lower < size(); ++lower) {
    std::string_view rest = all[static_cast<size_t>(lower)];
    while (!rest.empty()) {
      const size_t space = rest.find(' ');
      const int upper = std::stoi(std::string(rest.substr(0, space)));
      rest.remove_prefix(space + 1);
      for (const Flow flow : kFlows) {
        for (const bool upwards : {true, false}) {
          const ncclUniqueId id = id_of(std::string(rest.substr(0, sizeof id.internal)));
          rest.remove_prefix(sizeof id.internal);
          if (rank() != lower && rank() != upper) continue;
          const int from = upwards ? lower : upper, to = upwards ? upper : lower;
          channels_[{from, to, flow}] = &rank_->connect(
              id, rank() == lower ? 0 : 1, 2,
              fmt::format("{} from {} to {}, {}", name(), from, to, choice_name(flow)),
              my_options());
        }
      }
    }
  }
}

void NcclCommunicator::open_connections(const std::vector<OwnConnection>& connections) {
  if (size() == 1) return;
  const int most = facts_of_gpu().multiprocessors;
  for (const OwnConnection& own : connections) {
    if (own.settings.copy_engines)
      check_version(library_version(), kOldestWithCopyEngines, "comm_overlap.use_ce");
    VIADUCT_CHECK(
        ConfigError, own.settings.multiprocessors <= most,
        "comm_overlap.num_sm: {} for exchanges of {}, and the GPU has {} multiprocessors; "
        "expected at most {}",
        own.settings.multiprocessors, name(), most, most);
    const NcclGroupOptions options = with_settings(my_options(), own.settings);
    Connections& made = connections_[own.settings];
    if (own.collectives) made.collectives = &connect_all(name(), options);
    for (const Flow flow : kFlows) {
      if (flow == Flow::activations ? own.activations : own.gradients)
        made.message_groups[static_cast<size_t>(flow)] = &connect_messages(flow, options);
    }
  }
}

std::string version_name(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// Connections between other versions may hang or corrupt data.
void check_equal(Communicator& hosts, const NcclOptions& options) {
  const int version = library_version();
  VIADUCT_CHECK(DeviceError, version >= kOldestVersion,
                "dist.device=cuda: found NCCL {}.{}, needed 2.18 or newer: install a newer "
                "libnccl.so.2",
                version / 10000, version / 100 % 100);
  check_options(options, version);
  const int capability = gpu_of_thread().compute_capability;
  const std::vector<std::string> all = hosts.host().texts_on_all(
      fmt::format("NCCL {}, a GPU of compute capability {}.{}", version_name(version),
                  capability / 10, capability % 10));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail<ConfigError>(
        "dist.device=cuda: all ranks need the same version of NCCL and the same generation of "
        "GPUs; rank 0 has {}, rank {} has {}",
        all[0], rank, all[rank]);
  }
}

}  // namespace

std::string nccl_version() {
  return version_name(library_version());
}

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> hosts,
                                                     double timeout_seconds,
                                                     const NcclOptions& options,
                                                     const NcclRankOptions& of_rank) {
  check_equal(*hosts, options);
  auto rank = std::make_shared<NcclRank>(hosts, timeout_seconds, of_rank);
  return std::make_shared<NcclCommunicator>(std::move(rank), std::move(hosts),
                                            std::make_shared<const NcclOptions>(options));
}

std::string gpu_bus_id() {
  char id[32] = {};
  check_cuda(cudaDeviceGetPCIBusId(id, sizeof id, gpu_of_thread().ordinal),
             "cudaDeviceGetPCIBusId");
  return id;
}

}  // namespace viaduct
