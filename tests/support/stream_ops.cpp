#include "support/stream_ops.h"

#include "base/error.h"
#include "comm/start_request.h"
#include "ops/table.h"
#include "ops/unowned_args.h"
#include "support/stream_device.h"

namespace viaduct::test {
namespace {

StreamDevice& stream_device(Device& device) {
  auto* const found = dynamic_cast<StreamDevice*>(&device);
  VIADUCT_CHECK(DeviceError, found != nullptr, "queued ops on another device than theirs");
  return *found;
}

OpQueue& other_queue() {
  static OpQueue queue;
  return queue;
}

template <auto kEntry>
void launch_queued(OpContext& context, const Choice& choice,
                   const decltype(args_of_entry(kEntry))& args, void* workspace) {
  if (const OpQueue& other = other_queue(); other.push != nullptr && other.takes(context.device)) {
    other.push(context, choice.kernel,
               [&other, context, choice, args = unowned_args(args), workspace]() mutable {
                 (other.kernels->*kEntry).launch(context, choice, args, workspace);
               });
    return;
  }
  StreamDevice& device = stream_device(context.device);
  device.push(context.stream, std::string(choice.kernel),
              [&device, context, choice, args = unowned_args(args), workspace]() mutable {
                (device.kernels().*kEntry).launch(context, choice, args, workspace);
                return true;
              });
}

/// An operation of `inner`: it begins at the head of its stream and completes some time later.
struct Running {
  std::function<std::unique_ptr<CommOperation>()> begin;
  std::unique_ptr<CommOperation> operation;
  bool complete = false;

  bool go_on() {
    if (operation == nullptr) operation = begin();
    if (!operation->ready()) return false;
    operation->wait();
    return complete = true;
  }
};

class StreamOperation final : public CommOperation {
 public:
  StreamOperation(StreamDevice& device, std::shared_ptr<Running> running)
      : device_(device), running_(std::move(running)) {}
  bool ready() override {
    device_.run_some();
    return running_->complete;
  }
  void wait() override {
    device_.run_until([&] { return running_->complete; });
  }

 private:
  StreamDevice& device_;
  std::shared_ptr<Running> running_;
};

/// Several operations of `inner` as one.
class Begun final : public CommOperation {
 public:
  explicit Begun(std::vector<CommHandle> handles) : handles_(std::move(handles)) {}
  bool ready() override {
    bool all = true;
    for (CommHandle& handle : handles_) all &= handle.ready();
    return all;
  }
  void wait() override {
    for (CommHandle& handle : handles_) handle.wait_host();
  }

 private:
  std::vector<CommHandle> handles_;
};

/// The host waits for other hosts. A real device works meanwhile, and other ranks may need its
/// work; this one runs only in host calls, so it finishes all queued work before the host waits.
class WorkingHostGroup final : public HostGroup {
 public:
  WorkingHostGroup(StreamDevice& device, std::shared_ptr<Communicator> inner)
      : HostGroup(inner->rank(), inner->size()), device_(device), inner_(std::move(inner)) {}

 private:
  class Call final : public HostCall {
   public:
    Call(StreamDevice& device, std::unique_ptr<HostCall> inner)
        : device_(device), inner_(std::move(inner)) {}
    std::string wait() override {
      device_.finish();
      return inner_->wait();
    }

   private:
    StreamDevice& device_;
    std::unique_ptr<HostCall> inner_;
  };
  std::unique_ptr<HostCall> start(Request request) override {
    return std::make_unique<Call>(device_, start_on(inner_->host(), std::move(request)));
  }
  /// Access to the protected function `start` of another group.
  struct Access : HostGroup {
    static constexpr auto start_of() { return &Access::start; }
  };
  static std::unique_ptr<HostCall> start_on(HostGroup& group, Request request) {
    return (group.*Access::start_of())(std::move(request));
  }

  StreamDevice& device_;
  std::shared_ptr<Communicator> inner_;
};

class StreamCommunicator final : public Communicator {
 public:
  explicit StreamCommunicator(std::shared_ptr<Communicator> inner)
      : Communicator(inner->name()), inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void fail_all(std::string_view cause) override { inner_->fail_all(cause); }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    return start_group({request});
  }
  std::unique_ptr<CommOperation> start_group(const std::vector<CommRequest>& requests) override {
    std::vector<CommRequest> mine = requests;
    std::string what;
    for (CommRequest& r : mine) {
      VIADUCT_CHECK(CommError, r.collective != Collective::barrier,
                    "queued communicator: a barrier is the host's");
      r.in = unowned(r.in), r.out = unowned(r.out);
      r.order = {unowned(r.order.from), unowned(r.order.to)};
      what += std::string(choice_name(r.collective)) + " " + name() + " ";
    }
    auto running = std::make_shared<Running>();
    running->begin = [inner = inner_, mine] {
      std::vector<CommHandle> handles;
      for (const CommRequest& r : mine) handles.push_back(start_request(*inner, r));
      return std::make_unique<Begun>(std::move(handles));
    };
    StreamDevice& on = stream_device(*device());
    on.push(requests.front().stream, what, [running] { return running->go_on(); });
    return std::make_unique<StreamOperation>(on, running);
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return std::make_shared<WorkingHostGroup>(stream_device(*device()), inner_);
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    return std::make_shared<StreamCommunicator>(inner_->split(members, std::move(name)));
  }

  std::shared_ptr<Communicator> inner_;
};

}  // namespace

void use_op_queue(const OpQueue& queue) {
  other_queue() = queue;
}

OpTable queued(OpTable table) {
  for_each_entry([&]<auto kEntry>() { (table.*kEntry).launch = launch_queued<kEntry>; });
  return table;
}

std::shared_ptr<Communicator> queued(std::shared_ptr<Communicator> inner) {
  return std::make_shared<StreamCommunicator>(std::move(inner));
}

}  // namespace viaduct::test
