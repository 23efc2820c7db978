#include "support/stream_ops.h"

#include "base/error.h"
#include "comm/start_request.h"
#include "ops/for_each_tensor.h"
#include "support/stream_device.h"

namespace viaduct::test {
namespace {

/// The same view over memory that somebody else owns and may free.
Tensor unowned(const Tensor& tensor) {
  if (!tensor) return tensor;
  const Storage& block = *tensor.storage();
  return tensor.in_storage(std::make_shared<Storage>(block.data(), block.bytes(), nullptr));
}

template <class Args>
Args unowned_args(Args args) {
  for_each_tensor(args, [](const Tensor& tensor) {
    auto& field = const_cast<Tensor&>(tensor);  // a copy of `args` that this object owns
    field = unowned(field);
  });
  return args;
}

StreamDevice& stream_device(Device& device) {
  auto* const found = dynamic_cast<StreamDevice*>(&device);
  VIADUCT_CHECK(DeviceError, found != nullptr, "queued ops on another device than theirs");
  return *found;
}

template <class Args>
Args args_of(OpEntry<Args> OpTable::*);

OpQueue& other_queue() {
  static OpQueue queue;
  return queue;
}

template <auto kEntry>
void launch_queued(OpContext& context, const Choice& choice, const decltype(args_of(kEntry))& args,
                   void* workspace) {
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

template <auto... kEntries>
void queue_launches(OpTable& table) {
  // The table has traits, the form query and entries of one size; every entry must be queued.
  constexpr size_t kEntrySize = sizeof(OpEntry<CopyArgs>);
  static_assert(sizeof(OpTable) ==
                    sizeof(Traits) + sizeof(table.gemm_forms) + sizeof...(kEntries) * kEntrySize,
                "an op of the table is not in the list of those that are queued");
  (((table.*kEntries).launch = launch_queued<kEntries>), ...);
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
      what += std::string(collective_name(r.collective)) + " " + name() + " ";
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
  using T = OpTable;
  queue_launches<
      &T::gemm, &T::convert_operand, &T::expand_operand, &T::largest_magnitude,
      &T::square_magnitudes, &T::square_scales, &T::square_codes, &T::note_amax, &T::choose_amax,
      &T::column_sum, &T::bias_add, &T::norm_forward, &T::norm_backward, &T::activation_forward,
      &T::activation_backward, &T::rotary, &T::attention_forward, &T::attention_delta,
      &T::attention_backward, &T::attention_merge, &T::attention_sink, &T::attention_sink_backward,
      &T::repeat_heads, &T::sum_heads, &T::score_product, &T::score_softmax,
      &T::score_softmax_backward, &T::score_dropout, &T::embedding_forward, &T::embedding_backward,
      &T::cross_entropy_forward, &T::cross_entropy_backward, &T::lse_share, &T::lse_join,
      &T::soft_cap, &T::soft_cap_backward, &T::row_largest, &T::row_exponential, &T::row_sum,
      &T::row_divide, &T::row_pick, &T::softmax_loss_backward, &T::add, &T::multiply, &T::copy,
      &T::sum_rows, &T::scale, &T::fill, &T::dropout, &T::random_normal, &T::reproducible_sum,
      &T::reproducible_sums, &T::widen_sum, &T::narrow_sum, &T::sum_value, &T::gradient_norm,
      &T::adamw, &T::momentum, &T::adafactor_limits, &T::adafactor_sums, &T::adafactor_moments,
      &T::adafactor_direction, &T::adafactor_update, &T::muon_momentum, &T::normalize,
      &T::muon_update, &T::expand_state, &T::store_state, &T::route, &T::route_backward,
      &T::router_loss, &T::count_choices, &T::load_error, &T::move_load_bias, &T::limit_experts,
      &T::sinkhorn_bias, &T::count_margins, &T::quantile_bias, &T::jitter, &T::random_rows, &T::sort_by_expert, &T::arrival_order,
      &T::combine_rows, &T::combine_rows_backward, &T::grouped_gemm, &T::expert_bias,
      &T::expert_bias_backward>(table);
  return table;
}

std::shared_ptr<Communicator> queued(std::shared_ptr<Communicator> inner) {
  return std::make_shared<StreamCommunicator>(std::move(inner));
}

}  // namespace viaduct::test
