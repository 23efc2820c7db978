#include "comm/mpi/mpi_communicator.h"

#include <array>

#include "base/error.h"
#include "comm/mpi/mpi_handle.h"
#include "comm/mpi/mpi_host_group.h"

namespace viaduct {
namespace {

// Tags: messages by flow, meetings before a split, then two for each collective of the group in
// turn. The kind of collective is part of its tag, so that ranks that call different collectives
// wait for each other (and report it after the timeout) instead of mixing their messages. Tags of
// the host group are above (mpi_host_group.cpp). MPI guarantees tags up to 32767.
constexpr int kMeetingTag = 2, kFirstTag = 16, kKinds = 8;
constexpr uint32_t kTurns = 1024;
// A collective that is waited for later than this after its launch overlaps with computation.
constexpr double kAtOnceSeconds = 10e-6;

int tag_of(const CommRequest& request, uint32_t launched) {
  return kFirstTag + static_cast<int>(launched % kTurns) * 2 * kKinds +
         2 * static_cast<int>(request.collective);
}

/// Whether the last operation of a kind was waited for at once; predicts the same for the next one.
struct Habit {
  bool overlaps = false;
};

class Pending final : public CommOperation {
 public:
  Pending(std::shared_ptr<MpiEngine> engine, std::shared_ptr<const MpiGroup> group,
          std::shared_ptr<MpiOperation> operation, std::shared_ptr<MpiQueue> queue,
          std::shared_ptr<Habit> habit, Tensor in, Tensor out)
      : engine_(std::move(engine)),
        group_(std::move(group)),
        queue_(std::move(queue)),
        habit_(std::move(habit)),
        operation_(std::move(operation)),
        in_(std::move(in)),
        out_(std::move(out)) {}
  ~Pending() override { engine_->forget(*operation_); }

  bool ready() override {
    if (asked_seconds_ == 0) asked_seconds_ = steady_seconds();
    return engine_->ready(*operation_, queue_.get(), asked_seconds_);
  }
  void wait() override {
    const double now = steady_seconds();
    habit_->overlaps = now - launched_seconds_ > kAtOnceSeconds;
    engine_->wait(*operation_, queue_.get(), now);
  }
  double busy_seconds() const override { return operation_->busy_seconds(); }

 private:
  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<const MpiGroup> group_;
  std::shared_ptr<MpiQueue> queue_;
  std::shared_ptr<Habit> habit_;
  std::shared_ptr<MpiOperation> operation_;
  Tensor in_, out_;  // held until the operation no longer uses them
  const double launched_seconds_ = steady_seconds();
  double asked_seconds_ = 0;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiEngine> engine, std::shared_ptr<const MpiGroup> group)
      : Communicator(group->name()), engine_(std::move(engine)), group_(std::move(group)) {
    for (auto& habit : habits_) habit = std::make_shared<Habit>();
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  void fail_all(std::string_view cause) override { engine_->fail_all(cause); }
  std::string failure() const override { return engine_->failure(); }
  std::shared_ptr<Communicator> reconnect(double seconds) override {
    engine_->reconnect(seconds);
    std::shared_ptr<const MpiGroup> spare;
    engine_->with_network([&](MpiNetwork& network) {
      // The network outlives the engine.
      spare = std::shared_ptr<const MpiGroup>(std::shared_ptr<void>(), &network.spare());
    });
    return make_mpi_communicator(engine_, std::move(spare));
  }
  MpiTraffic traffic() {
    MpiTraffic traffic{0, static_cast<int64_t>(queue_->scratch.size())};
    with_group([&](const MpiGroup& group) { traffic.messages = group.handle().sent; });
    return traffic;
  }
  void with_group(FunctionRef<void(const MpiGroup&)> f) {
    engine_->with_network([&](MpiNetwork&) { f(*group_); });
  }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    VIADUCT_CHECK(
        CommError,
        request.collective != Collective::broadcast || (request.peer >= 0 && request.peer < size()),
        "broadcast over {} ({} ranks): there is no rank {}", name(), size(), request.peer);
    const bool message = is_message(request.collective);
    const int tag = message ? static_cast<int>(request.flow) : tag_of(request, queue_->launched++);
    const std::shared_ptr<MpiQueue> queue = message ? nullptr : queue_;
    auto operation = make_mpi_operation(*group_, request, tag, queue_->scratch);
    const auto& habit = habits_[static_cast<size_t>(request.collective)];
    engine_->start(operation, queue, habit->overlaps);
    return std::make_unique<Pending>(engine_, group_, std::move(operation), queue, habit,
                                     request.in, request.out);
  }

  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    // Creating a group blocks inside MPI, so it is entered only when all members have arrived.
    const auto meeting = make_mpi_meeting(*group_, members, kMeetingTag, "split");
    engine_->start(meeting, nullptr, false);
    engine_->wait(*meeting, nullptr, steady_seconds());
    std::shared_ptr<const MpiGroup> group;
    engine_->with_network(
        [&](MpiNetwork& network) { group = network.make_group(*group_, members, name); });
    return make_mpi_communicator(engine_, std::move(group));
  }

  std::shared_ptr<HostGroup> make_host_group() override {
    return make_mpi_host_group(engine_, group_);
  }

  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<const MpiGroup> group_;
  std::shared_ptr<MpiQueue> queue_ = std::make_shared<MpiQueue>();
  std::array<std::shared_ptr<Habit>, kKinds> habits_;  // by collective
};

}  // namespace

std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine,
                                                    std::shared_ptr<const MpiGroup> group) {
  return std::make_shared<MpiCommunicator>(std::move(engine), std::move(group));
}

namespace {

MpiCommunicator& of_mpi(Communicator& communicator) {
  auto* found = dynamic_cast<MpiCommunicator*>(&communicator);
  VIADUCT_CHECK(CommError, found != nullptr, "{} is not a group of MPI ranks", communicator.name());
  return *found;
}

}  // namespace

void with_mpi_group(Communicator& communicator, FunctionRef<void(const MpiGroup&)> f) {
  of_mpi(communicator).with_group(f);
}

MpiTraffic mpi_traffic(Communicator& communicator) {
  return of_mpi(communicator).traffic();
}

}  // namespace viaduct
