#include <cstring>

#include "base/error.h"
#include "comm/completed_operation.h"

namespace viaduct {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  using Communicator::Communicator;
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void fail_all(std::string_view) override {}
  bool can_be_captured() const override { return true; }

 private:
  /// Row by row, on the host: of devices whose streams are the host thread.
  void move_by_order(const CommRequest& r) const {
    VIADUCT_CHECK(CommError, device() == nullptr || !device()->has_side_streams(),
                  "all_to_all over {} (one rank): an order of rows is not implemented on a device "
                  "with streams",
                  name());
    const auto row = static_cast<size_t>(r.out.dim(0) == 0 ? 0 : r.out.bytes() / r.out.dim(0));
    const auto place = [](const Tensor& order, int64_t i) {
      return static_cast<size_t>(order ? order.data<int32_t>()[i] : i);
    };
    const auto* in = static_cast<const std::byte*>(r.in.raw());
    auto* out = static_cast<std::byte*>(r.out.raw());
    for (int64_t i = 0; i < r.out.dim(0); ++i)
      std::memcpy(out + place(r.order.to, i) * row, in + place(r.order.from, i) * row, row);
  }
  std::unique_ptr<CommOperation> start(const CommRequest& r) override {
    if (r.order.from || r.order.to) {
      if (r.in.raw() != nullptr) move_by_order(r);
      return std::make_unique<CompletedOperation>();
    }
    const bool moves = r.in.defined() && r.out.defined() && r.in.raw() != nullptr;
    if (moves && device() != nullptr && device()->has_side_streams())
      device()->copy(r.in, r.out, r.stream);
    else if (moves && r.in.raw() != r.out.raw())
      std::memmove(r.out.raw(), r.in.raw(), static_cast<size_t>(r.in.bytes()));
    return std::make_unique<CompletedOperation>();
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>&, std::string name) override {
    return make_self_communicator(std::move(name));
  }
  std::shared_ptr<HostGroup> make_host_group() override { return make_stated_host_group(0, 1); }
};

}  // namespace

std::shared_ptr<Communicator> make_self_communicator(std::string name) {
  return std::make_shared<SelfCommunicator>(std::move(name));
}

}  // namespace viaduct
