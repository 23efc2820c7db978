// Collectives and messages of GPU memory by NCCL, on the doubles of NCCL and of the runtime, in
// every order that the streams allow; and how a rank ends when the others do not join.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "comm/comm_group.h"
#include "comm/start_request.h"
#include "support/collective_exercise.h"
#include "unit/cuda_host/nccl_ranks.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A communicator of host tensors that copies them to the device and back.
class ThroughDevice final : public Communicator {
 public:
  ThroughDevice(std::shared_ptr<Communicator> inner, Device& device)
      : Communicator(inner->name()), inner_(std::move(inner)), device_(device) {
    std::vector<int> others;
    for (int rank = 0; rank < size(); ++rank)
      if (rank != this->rank()) others.push_back(rank);
    inner_->open_channels(others, true);
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void fail_all(std::string_view cause) override { inner_->fail_all(cause); }

 private:
  class Operation final : public CommOperation {
   public:
    Operation(Device& device, CommHandle handle, Tensor there, Tensor here)
        : device_(device),
          handle_(std::move(handle)),
          there_(std::move(there)),
          here_(std::move(here)) {}
    bool ready() override { return handle_.ready(); }
    void wait() override {
      handle_.wait();
      if (here_) device_.copy_to_host(there_, here_);
      here_ = {};
    }

   private:
    Device& device_;
    CommHandle handle_;
    Tensor there_, here_;
  };

  Tensor on_device(const Tensor& host) {
    if (!host) return {};
    const Tensor there = device_.allocate(host.dtype(), host.shape(), MemoryTag::activations);
    device_.copy_from_host(host, there);
    return there;
  }
  std::unique_ptr<CommOperation> start(const CommRequest& request) override {
    CommRequest there = request;
    there.in = on_device(request.in);
    const auto* in = static_cast<const char*>(request.in ? request.in.raw() : nullptr);
    const auto* out = static_cast<const char*>(request.out ? request.out.raw() : nullptr);
    if (in != nullptr && in == out && request.in.bytes() == request.out.bytes()) {
      there.out = there.in;
    } else {
      there.out = on_device(request.out);
      // One is a view into the other.
      const auto part_of = [](const char* part, const Tensor& whole) {
        const auto* begin = static_cast<const char*>(whole ? whole.raw() : nullptr);
        return begin != nullptr && part >= begin && part < begin + whole.bytes();
      };
      const auto slice = [](const Tensor& whole, const Tensor& part, int64_t offset) {
        return Tensor(whole.storage(), whole.dtype(), part.shape(), whole.offset_bytes() + offset);
      };
      if (in != nullptr && request.in.bytes() > 0 && request.in.bytes() < request.out.bytes() &&
          part_of(in, request.out))
        there.in = slice(there.out, request.in, in - out);
      else if (out != nullptr && request.out.bytes() > 0 && part_of(out, request.in))
        there.out = slice(there.in, request.out, out - in);
    }
    if (request.collective == Collective::all_to_all && (request.order.from || request.order.to))
      return ordered(request);
    if (request.collective == Collective::barrier) {
      inner_->barrier();
      return std::make_unique<Operation>(device_, CommHandle(), Tensor(), Tensor());
    }
    CommHandle handle = start_request(*inner_, there);
    const bool result = request.collective != Collective::send;
    return std::make_unique<Operation>(device_, std::move(handle), there.out,
                                       result ? request.out : Tensor());
  }
  /// Rows by number are refused, so the exercise copies the rows itself.
  std::unique_ptr<CommOperation> ordered(const CommRequest& r) {
    const auto rows = [](const Tensor& from, const Tensor& to, const Tensor& order, bool puts) {
      const int64_t row = to.dim(0) == 0 ? 0 : to.bytes() / to.dim(0);
      for (int64_t i = 0; i < to.dim(0); ++i) {
        const int64_t other = order ? order.data<int32_t>()[i] : i;
        std::memcpy(static_cast<char*>(to.raw()) + (puts ? other : i) * row,
                    static_cast<const char*>(from.raw()) + (puts ? i : other) * row,
                    static_cast<size_t>(row));
      }
    };
    const Tensor in = host_tensor(r.in.dtype(), r.in.shape());
    const Tensor out = host_tensor(r.out.dtype(), r.out.shape());
    rows(r.in, in, r.order.from, false);
    all_to_all(in, out, r.send_rows, r.receive_rows).wait();
    rows(out, r.out, r.order.to, true);
    return std::make_unique<Operation>(device_, CommHandle(), Tensor(), Tensor());
  }
  std::shared_ptr<HostGroup> make_host_group() override {
    return std::shared_ptr<HostGroup>(inner_, &inner_->host());
  }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    return std::make_shared<ThroughDevice>(inner_->split(members, std::move(name)), device_);
  }

  std::shared_ptr<Communicator> inner_;
  Device& device_;
};

TEST(Nccl, AgreesWithPlainLoops) {
  for (uint64_t seed = 0; seed <= 1; ++seed) {
    run_ranks(3, seed, 60, [](CudaDevice& device, const auto& world) {
      test::exercise(std::make_shared<ThroughDevice>(world, device));
    });
    EXPECT_GT(nccl_double::calls(), 1000);
  }
}

// Only waits order compute and the sums of two groups; compute produces and uses each tensor.
TEST(Nccl, StreamsWaitForOperationsAndOperationsForStreams) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    run_ranks(2, seed, 60, [](CudaDevice& device, const auto& world) {
      const auto part = world->split({0, 1}, "part");
      part->open_channels({1 - part->rank()}, true);
      for (int turn = 0; turn < 4; ++turn) {
        const auto mine = static_cast<float>(world->rank() + 1 + turn);
        const Tensor a = filled(device, 100, mine), b = filled(device, 50, 10 * mine);
        const Tensor from_other = filled(device, 100, 0);
        double_all(device, a);
        CommHandle sum = world->all_reduce(a, ReduceOp::sum);
        double_all(device, b);
        CommHandle most = part->all_reduce(b, ReduceOp::max);
        CommGroup ring(*part);
        const Tensor leaving = filled(device, 100, mine);
        ring.send(leaving, 1 - part->rank(), Flow::activations);
        ring.receive(from_other, 1 - part->rank(), Flow::activations);
        CommHandle messages = ring.start();
        sum.wait();
        double_all(device, a);
        most.wait();
        double_all(device, b);
        messages.wait();
        double_all(device, from_other);
        const auto base = static_cast<float>(turn);
        ASSERT_EQ(first_of(device, a), 4 * (1 + 2 + 2 * base));
        ASSERT_EQ(first_of(device, b), 2 * 2 * 10 * (2 + base));
        ASSERT_EQ(first_of(device, from_other), 2 * (3 + 2 * base - mine));
      }
    });
    if (HasFailure()) return;
  }
}

// Early receives: each flow and direction of a pair progresses independently.
TEST(Nccl, MessagesOfOneChannelDoNotWaitForThoseOfAnother) {
  for (uint64_t seed = 0; seed <= 6; ++seed) {
    run_ranks(2, seed, 60, [](CudaDevice& device, const auto& world) {
      world->open_channels({1 - world->rank()}, false);
      const Tensor out = filled(device, 10, 3), in = filled(device, 10, 0);
      if (world->rank() == 0) {
        CommHandle back = world->receive(in, 1, Flow::gradients);
        world->send(out, 1, Flow::activations).wait();
        back.wait();
        EXPECT_EQ(first_of(device, in), 6);
      } else {
        world->receive(in, 0, Flow::activations).wait();
        double_all(device, in);
        world->send(in, 0, Flow::gradients).wait();
      }
    });
  }
}

TEST(Nccl, AMessageWithoutAChannelIsAnError) {
  EXPECT_THAT(
      [] {
        run_ranks(2, 1, 60, [](CudaDevice& device, const auto& world) {
          const Tensor tensor = filled(device, 10, 3);
          if (world->rank() == 0)
            world->send(tensor, 1, Flow::activations).wait();
          else
            world->receive(tensor, 0, Flow::activations).wait();
        });
      },
      ThrowsMessage<CommError>(HasSubstr("no channel from rank 0 to rank 1 was opened")));
}

TEST(Nccl, CallsThatDifferBetweenRanksAreAnError) {
  EXPECT_THAT(
      [] {
        run_ranks(2, 1, 60, [](CudaDevice& device, const auto& world) {
          const Tensor tensor = filled(device, 10 + world->rank(), 1);
          world->all_reduce(tensor, ReduceOp::sum).wait_host();
        });
      },
      ThrowsMessage<CommError>(AllOf(HasSubstr("ncclInvalidUsage"), HasSubstr("another rank"))));
}

// The other rank has failed: a wait for this rank's GPU ends.
TEST(Nccl, AFailedRankIsTheCauseOnAllRanks) {
  std::string found;
  EXPECT_THAT(
      [&found] {
        run_ranks(2, 3, 20, [&found](CudaDevice& device, const auto& world) {
          if (world->rank() == 1) throw DeviceError("the GPU has fallen off the bus");
          const Tensor tensor = filled(device, 10, 1);
          try {
            world->all_reduce(tensor, ReduceOp::sum).wait_host();
          } catch (const CommError& error) {
            found = error.what();
            throw;
          }
        });
      },
      ThrowsMessage<DeviceError>(HasSubstr("rank 1: the GPU has fallen off the bus")));
  EXPECT_THAT(found, HasSubstr("the GPU has fallen off the bus")) << "before the timeout";
}

TEST(Nccl, AnOperationThatNobodyJoinsEndsWithTheTimeout) {
  std::string found;
  const auto main = [&found](CudaDevice& device, const std::shared_ptr<Communicator>& world) {
    const Tensor tensor = filled(device, 10, 1);
    if (world->rank() == 1) {
      // This rank's host waits for the other host, which waits for its GPU.
      try {
        world->host().sum(1);
      } catch (const CommError&) {
      }
      return;
    }
    CommHandle handle = world->all_reduce(tensor, ReduceOp::sum);
    try {
      handle.wait_host();
    } catch (const CommError& error) {
      found = error.what();
      throw;
    }
  };
  EXPECT_THROW(run_ranks(2, 3, 0.3, main), CommError);
  EXPECT_THAT(found, AllOf(HasSubstr("all_reduce over world (40 bytes) on rank 0"),
                           HasSubstr("not complete after 0.3 s")));
}

TEST(Nccl, AnErrorOfTheLibraryIsTheCause) {
  EXPECT_THAT(
      [] {
        run_ranks(2, 3, 60, [](CudaDevice& device, const auto& world) {
          nccl_double::fail_from_call(1);
          const Tensor tensor = filled(device, 10, 1);
          world->all_reduce(tensor, ReduceOp::sum).wait_host();
        });
      },
      ThrowsMessage<CommError>(HasSubstr("ncclRemoteError: the other end is gone")));
}

TEST(Nccl, AnOldLibraryIsAnError) {
  cuda_host::reset_runtime({.devices = 2});
  nccl_double::reset({.version = 21602});
  EXPECT_THAT(
      [] {
        run_thread_ranks(2, {.timeout_seconds = 30}, [](std::shared_ptr<Communicator> hosts) {
          use_gpu(hosts->rank());
          make_nccl_communicator(hosts, 60);
        });
      },
      ThrowsMessage<DeviceError>(HasSubstr("found NCCL 2.16, needed 2.18 or newer")));
}

}  // namespace
}  // namespace viaduct
