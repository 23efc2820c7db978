#include "comm/staged_communicator.h"

#include <deque>
#include <exception>
#include <utility>

#include "base/error.h"
#include "comm/queued_operation.h"
#include "comm/start_request.h"

namespace viaduct {
namespace {

/// A request, and the same for host memory.
struct Staged {
  CommRequest device, host;
};

/// An operation that is on its way to `inner`.
struct Pending {
  std::shared_ptr<Communicator> inner;
  std::vector<Staged> requests;
  Event copied;                     // the inputs are on the host
  std::vector<CommHandle> handles;  // once it is passed to `inner`
};

/// The operations of a rank, in their order. When the host waits for one, all are passed on:
/// other ranks may wait for an earlier one first.
class StagedQueue {
 public:
  void add(std::shared_ptr<Pending> pending) { waiting_.push_back(std::move(pending)); }
  void hand_over(Device& device) {
    while (!waiting_.empty()) {
      const std::shared_ptr<Pending> next = std::move(waiting_.front());
      waiting_.pop_front();
      device.wait_host(next->copied);
      for (const Staged& request : next->requests)
        next->handles.push_back(start_request(*next->inner, request.host));
    }
  }
  void drop(const Pending* pending) {
    std::erase_if(waiting_, [&](const auto& one) { return one.get() == pending; });
  }

 private:
  std::deque<std::shared_ptr<Pending>> waiting_;
};

class StagedOperation final : public LateOperation {
 public:
  StagedOperation(std::shared_ptr<StagedQueue> queue, Device& device,
                  std::shared_ptr<Pending> pending)
      : queue_(std::move(queue)), device_(device), pending_(std::move(pending)) {}
  /// After an error of this rank it is not waited for, but its copies still write to the host's
  /// memory.
  ~StagedOperation() override {
    if (pending_ == nullptr) return;
    queue_->drop(pending_.get());
    try {
      device_.wait_host(pending_->copied);
    } catch (...) {  // the device has failed, and copies nothing
    }
  }

  bool ready() override {
    if (pending_ == nullptr) return true;
    queue_->hand_over(device_);
    bool all = true;
    for (CommHandle& handle : pending_->handles) all = handle.ready() && all;
    return all;
  }

  void finish() override {
    // While an error unwinds this rank, the others might wait for it: they must be told first.
    if (pending_ == nullptr || std::uncaught_exceptions() > exceptions_) return;
    queue_->hand_over(device_);
    for (CommHandle& handle : pending_->handles) handle.wait_host();
    const std::shared_ptr<Pending> done = std::move(pending_);
    for (const Staged& request : done->requests) {
      if (!request.device.out) continue;
      const int stream = request.device.stream;
      device_.launched(stream);
      device_.copy(request.host.out, request.device.out, stream);
    }
    // The host's memory is freed on return.
    if (!done->requests.empty())
      device_.wait_host(device_.record_event(done->requests.front().device.stream));
  }

 private:
  std::shared_ptr<StagedQueue> queue_;
  Device& device_;
  std::shared_ptr<Pending> pending_;  // null when it is over
  int exceptions_ = std::uncaught_exceptions();
};

/// The host waits for other hosts, which may wait for operations of this one.
class StagedHosts final : public HostGroup {
 public:
  StagedHosts(std::shared_ptr<StagedQueue> queue, Device& device,
              std::shared_ptr<Communicator> inner)
      : HostGroup(inner->rank(), inner->size()),
        queue_(std::move(queue)),
        device_(device),
        inner_(std::move(inner)) {}

 private:
  class Call final : public HostCall {
   public:
    Call(StagedHosts& hosts, std::unique_ptr<HostCall> inner)
        : queue_(hosts.queue_), device_(hosts.device_), inner_(std::move(inner)) {}
    std::string wait() override {
      queue_->hand_over(device_);
      return inner_->wait();
    }

   private:
    std::shared_ptr<StagedQueue> queue_;
    Device& device_;
    std::unique_ptr<HostCall> inner_;
  };
  /// What backends implement for calls of a group, of a group that is another object.
  struct Access : HostGroup {
    static constexpr auto start_of() { return &Access::start; }
  };
  std::unique_ptr<HostCall> start(Request request) override {
    HostGroup& group = inner_->host();
    return std::make_unique<Call>(*this, (group.*Access::start_of())(std::move(request)));
  }

  std::shared_ptr<StagedQueue> queue_;
  Device& device_;
  std::shared_ptr<Communicator> inner_;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::shared_ptr<Communicator> inner, std::shared_ptr<StagedQueue> queue)
      : Communicator(inner->name()), inner_(std::move(inner)), queue_(std::move(queue)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void fail_all(std::string_view cause) override { inner_->fail_all(cause); }
  /// Of the hosts alone: it exchanges no tensors of the device.
  std::shared_ptr<Communicator> reconnect(double seconds) override {
    return inner_->reconnect(seconds);
  }
  /// The numbers are in the device's memory, and the rows on the host.
  bool takes_row_order() const override { return false; }
  void open_connections(const std::vector<OwnConnection>&) override {
    fail<ConfigError>(
        "comm_overlap: num_sm, cga_size and use_ce (of tables by name too) are settings of NCCL, "
        "which ranks that share a GPU do not use; expected a GPU for each rank, or none of them");
  }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    return start_group({request});
  }
  std::unique_ptr<CommOperation> start_group(const std::vector<CommRequest>& requests) override {
    Device& on = device_of_rank();
    auto pending = std::make_shared<Pending>();
    pending->inner = inner_;
    for (const CommRequest& request : requests) {
      Staged& staged = pending->requests.emplace_back(Staged{request, request});
      Tensor &in = staged.host.in, &out = staged.host.out;
      if (request.in) {
        in = host_tensor(request.in.dtype(), request.in.shape());
        on.copy(request.in, in, request.stream);
      }
      const bool in_place = request.in && request.out && request.in.raw() == request.out.raw() &&
                            request.in.bytes() == request.out.bytes();
      if (request.out) out = in_place ? in : host_tensor(request.out.dtype(), request.out.shape());
    }
    pending->copied = on.record_event(requests.front().stream);
    queue_->add(pending);
    return std::make_unique<StagedOperation>(queue_, on, std::move(pending));
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return std::make_shared<StagedHosts>(queue_, device_of_rank(), inner_);
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    return std::make_shared<StagedCommunicator>(inner_->split(members, std::move(name)), queue_);
  }

  Device& device_of_rank() const {
    VIADUCT_CHECK(CommError, device() != nullptr && device()->has_side_streams(),
                  "{}: collectives through the host need a device with streams beside compute",
                  name());
    return *device();
  }

  std::shared_ptr<Communicator> inner_;
  std::shared_ptr<StagedQueue> queue_;
};

}  // namespace

std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner) {
  return std::make_shared<StagedCommunicator>(std::move(inner), std::make_shared<StagedQueue>());
}

}  // namespace viaduct
