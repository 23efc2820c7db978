// Communicators for a dry run: one rank of a group whose other ranks are simulated. Operations are
// recorded by the base class and complete at once; nothing moves, since tensors of the sim device
// have no bytes.

#include "comm/completed_operation.h"

namespace viaduct {
namespace {

class SimCommunicator final : public Communicator {
 public:
  SimCommunicator(int rank, int size, std::string name)
      : Communicator(std::move(name)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void fail_all(std::string_view) override {}
  bool can_be_captured() const override { return true; }
  /// As the communicators of the device that is simulated: NCCL's, where it has streams.
  bool takes_row_order() const override {
    return device() == nullptr || !device()->has_side_streams();
  }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest&) override {
    return std::make_unique<CompletedOperation>();
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    int rank = 0;
    while (members[static_cast<size_t>(rank)] != rank_) ++rank;
    return make_sim_communicator(rank, static_cast<int>(members.size()), std::move(name));
  }

  std::shared_ptr<HostGroup> make_host_group() override {
    return make_stated_host_group(rank_, size_);
  }

  int rank_, size_;
};

}  // namespace

std::shared_ptr<Communicator> make_sim_communicator(int rank, int size, std::string name) {
  return std::make_shared<SimCommunicator>(rank, size, std::move(name));
}

}  // namespace viaduct
