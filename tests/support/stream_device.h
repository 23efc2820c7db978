#pragma once
// A device with side streams, on the host. What a stream is given waits in its queue; a scheduler
// with a seed takes the next piece of any stream that may go on, a few at a time while the program
// runs, and all that is needed where the host waits. Nothing but waits orders two streams, as on a
// GPU: a step that misses one computes something else with some seed.
//
// Memory is taken and given back in the order of compute: it can be handed out again as soon as the
// host gave it back, and becomes NaN when compute comes to that point. Queued work does not own
// what it uses, so what is freed while a side stream still needs it shows.

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
  /// Runs the launches of `kernels` (stream_ops.h). With nothing to do for `patience_seconds` but
  /// wait for other ranks, it gives up.
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

  /// A piece of work for a stream that the device was told of (`launched`). Called until it returns
  /// true; false: not yet, for reasons outside of this device.
  using Work = std::function<bool()>;
  void push(int stream, std::string what, Work work);
  /// Runs work of streams that may go on until `done()`. DeviceError that names what every stream
  /// stands at if nothing can go on, or nothing did for the patience.
  void run_until(FunctionRef<bool()> done);
  /// Runs some work, if there is any that can.
  void run_some();
  /// Everything.
  void finish();

  const OpTable& kernels() const { return kernels_; }
  /// Pieces that ran while an older one waited in another stream.
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
  int beside_host_;  // one of so many pushes lets a piece run at once
  int until_draw_ = 0;
  std::vector<Stream> streams_;
  int64_t next_number_ = 0, out_of_order_ = 0;
  std::map<void*, int64_t> blocks_;     // address → size
  std::multimap<int64_t, void*> free_;  // size → address, ready to be handed out
  Tensor scratch_;
  bool closing_ = false;
};

}  // namespace viaduct::test
