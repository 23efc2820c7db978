#pragma once
// A device with side streams, on the host. Work waits in the queue of its stream. A seeded
// scheduler runs the next piece of any stream that is ready: a few at a time while the program
// runs, and all required pieces when the host waits. Only waits order two streams, as on a GPU: a
// step that lacks one computes wrong values with some seed.
//
// Memory is allocated and freed in the order of compute: it can be reused as soon as the host has
// freed it, and becomes NaN when compute reaches that point. Queued work does not own its memory,
// so freeing it while a side stream still needs it is detected.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "ops/table.h"
#include "support/scaled_device.h"

namespace viaduct::test {

class StreamDevice final : public Device, public ScaledScratch {
 public:
  /// Runs the launches of `kernels` (stream_ops.h). Throws after `patience_seconds` of waiting for
  /// other ranks without progress.
  StreamDevice(uint64_t seed, OpTable kernels, double patience_seconds = 20);
  ~StreamDevice() override;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  bool has_side_streams() const override { return true; }
  ThreadPool& pool() override { return pool_; }
  void wait_host(const Event& event) override;
  void copy_from_host(const Tensor& host, const Tensor& device) override;
  void copy_to_host(const Tensor& device, const Tensor& host) override;
  void copy(const Tensor& from, const Tensor& to, int stream) override;
  std::byte* scratch(int64_t bytes) override;

  /// A piece of work for a stream, announced to the device (`launched`). It is called until it
  /// returns true; false: it must wait for something outside of this device.
  using Work = std::function<bool()>;
  void push(int stream, std::string what, Work work);
  /// Runs work of ready streams until `done()`. Throws a DeviceError with each stream's current
  /// work if none is ready, or none was for `patience_seconds`.
  void run_until(FunctionRef<bool()> done);
  /// Runs some work, if any is ready.
  void run_some();
  /// Runs everything.
  void finish();

  const OpTable& kernels() const { return kernels_; }
  /// Number of pieces that ran while an older one waited in another stream.
  int64_t out_of_order() const { return out_of_order_; }

 protected:
  void* take(int64_t bytes, MemoryTag tag) override;
  void give(void* data, int64_t bytes) override;
  void enqueue_wait(int stream, const Event& event) override;

 private:
  struct Piece {
    int64_t position = 0, number = 0;
    std::string what;
    Work work;
    bool waits_for_stream = false;
  };
  struct Stream {
    std::deque<Piece> queue;
    double eagerness = 1;
  };
  bool passed(const Event& event);
  bool step(size_t stream);
  bool step_any();
  void draw_eagerness();
  void enqueue(int stream, std::string what, Work work);
  [[noreturn]] void give_up(std::string_view why) const;

  OpTable kernels_;
  ThreadPool pool_{1};
  std::mt19937_64 random_;
  std::chrono::duration<double> patience_;
  int beside_host_;  // one of this many pushes runs a piece at once
  int until_draw_ = 0;
  std::vector<Stream> streams_;
  int64_t next_number_ = 0, out_of_order_ = 0;
  std::map<void*, int64_t> blocks_;     // address → size
  std::multimap<int64_t, void*> free_;  // size → address, free
  Tensor scratch_;
  bool closing_ = false;
};

}  // namespace viaduct::test
