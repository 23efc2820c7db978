#include "device/slot_memory.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/physical_memory.h"
#include "base/thread.h"
#include "base/units.h"
#include "device/stream_backing.h"

namespace viaduct {

class SlotMemory::Copier {
 public:
  virtual ~Copier() = default;
  /// Starts a copy between `data` and the slot at `offset`; its ticket.
  virtual int64_t ask(bool writes, int64_t offset, void* data, int64_t bytes) = 0;
  /// Waits until all copies up to this one are complete.
  virtual void wait_for_end(int64_t ticket) noexcept = 0;
  /// The same; throws why a copy up to this one failed.
  virtual void wait(int64_t ticket) = 0;
  /// The slot is empty.
  virtual void release(int64_t offset) = 0;

  class OnThread;
  class OnStreams;
};

/// A thread that makes copies one after the other, in the order of the requests.
class SlotMemory::Copier::OnThread final : public Copier {
 public:
  explicit OnThread(SlotBacking& backing) : backing_(backing), thread_([this] { run(); }) {}
  ~OnThread() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    work_.notify_one();
    thread_.join();
  }
  OnThread(const OnThread&) = delete;
  OnThread& operator=(const OnThread&) = delete;

  int64_t ask(bool writes, int64_t offset, void* data, int64_t bytes) override {
    int64_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      copies_.push_back({writes, offset, data, bytes});
      ticket = asked_++;
    }
    work_.notify_one();
    return ticket;
  }

  void wait_for_end(int64_t ticket) noexcept override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return finished_ > ticket; });
  }
  void wait(int64_t ticket) override {
    wait_for_end(ticket);
    const std::lock_guard lock(mutex_);
    if (failure_ && failed_ <= ticket) std::rethrow_exception(failure_);
  }
  void release(int64_t) override {}

 private:
  struct Copy {
    bool writes = false;
    int64_t offset = 0;
    void* data = nullptr;
    int64_t bytes = 0;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return ends_ || !copies_.empty(); });
      if (copies_.empty()) return;
      const Copy copy = copies_.front();
      copies_.pop_front();
      const bool copies = failure_ == nullptr;
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (copies && copy.writes) backing_.write(copy.offset, copy.data, copy.bytes);
        if (copies && !copy.writes) backing_.read(copy.offset, copy.data, copy.bytes);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure, failed_ = finished_;
      ++finished_;
      done_.notify_all();
    }
  }

  SlotBacking& backing_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Copy> copies_;  // requested and not begun
  int64_t asked_ = 0, finished_ = 0;
  std::exception_ptr failure_;  // the first one
  int64_t failed_ = 0;          // ticket of that copy
  bool ends_ = false;
  Thread thread_;  // last: it uses all others
};

/// Copies are work of a device's streams, and compute waits for them.
class SlotMemory::Copier::OnStreams final : public Copier {
 public:
  explicit OnStreams(StreamBacking& backing) : backing_(backing) {}

  int64_t ask(bool writes, int64_t offset, void* data, int64_t bytes) override {
    return backing_.start(writes, offset, data, bytes);
  }
  void wait_for_end(int64_t ticket) noexcept override {
    try {
      backing_.wait(ticket);
    } catch (...) {  // the device has failed: its next call says so
    }
  }
  void wait(int64_t ticket) override { backing_.wait(ticket); }
  void release(int64_t offset) override { backing_.release(offset); }

 private:
  StreamBacking& backing_;
};

SlotMemory::SlotMemory(std::unique_ptr<SlotBacking> backing, std::optional<int64_t> most_bytes)
    : most_bytes_(most_bytes), backing_(std::move(backing)) {
  if (auto* const streams = dynamic_cast<StreamBacking*>(backing_.get()))
    copier_ = std::make_unique<Copier::OnStreams>(*streams);
  else if (backing_)
    copier_ = std::make_unique<Copier::OnThread>(*backing_);
}

SlotMemory::~SlotMemory() = default;

SlotMemory::Held& SlotMemory::held(Id id) {
  const auto found = held_.find(id);
  VIADUCT_CHECK(ShapeError, found != held_.end(), "second memory: nothing was put under {}", id);
  return found->second;
}

void SlotMemory::wait(const Held& held) {
  if (!copier_) return;
  const double begin = steady_seconds();
  copier_->wait(held.ticket);
  counts_.wait_seconds += steady_seconds() - begin;
}

SecondMemory::Id SlotMemory::put(const Tensor& value) {
  VIADUCT_CHECK(ShapeError, value.is_contiguous(), "second memory: expected a contiguous tensor");
  const int64_t bytes = value.bytes(), end = slots_.find(bytes) + MemorySlots::rounded(bytes);
  VIADUCT_CHECK(IoError, !most_bytes_ || end <= *most_bytes_,
                "second memory ({}): full: {} bytes more, with {} in use, exceed "
                "memory.offload_bytes = {}",
                describe(), bytes, slots_.bytes(), *most_bytes_);
  const int64_t offset = slots_.take(bytes);
  Held& held = held_[next_];
  held = {offset, bytes};
  if (copier_) held.ticket = copier_->ask(true, offset, value.raw(), bytes);
  ++counts_.puts;
  counts_.put_bytes += bytes;
  counts_.most_bytes = slots_.extent();
  return next_++;
}

void SlotMemory::finish_put(Id id) {
  wait(held(id));
}

void SlotMemory::fetch(Id id, const Tensor& value) {
  Held& held = this->held(id);
  VIADUCT_CHECK(ShapeError, value.is_contiguous() && value.bytes() == held.bytes,
                "second memory: {} bytes were put, but {} are to come back", held.bytes,
                value.bytes());
  if (copier_) held.ticket = copier_->ask(false, held.offset, value.raw(), held.bytes);
  ++counts_.fetches;
  counts_.fetched_bytes += held.bytes;
}

void SlotMemory::finish_fetch(Id id) {
  wait(held(id));
}

void SlotMemory::put_again(Id id, const Tensor& value) {
  Held& held = this->held(id);
  VIADUCT_CHECK(ShapeError, value.is_contiguous() && value.bytes() == held.bytes,
                "second memory: {} bytes were put, but {} are to replace them", held.bytes,
                value.bytes());
  if (copier_) held.ticket = copier_->ask(true, held.offset, value.raw(), held.bytes);
  ++counts_.puts;
  counts_.put_bytes += held.bytes;
}

void SlotMemory::take(Id id) {
  const Held& held = this->held(id);
  wait(held);
  if (copier_) copier_->release(held.offset);
  slots_.give(held.offset);
  held_.erase(id);
}

void SlotMemory::drop(Id id) noexcept {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  if (copier_) copier_->wait_for_end(found->second.ticket);
  if (copier_) copier_->release(found->second.offset);
  slots_.give(found->second.offset);
  held_.erase(found);
}

void SlotMemory::reserve(int64_t bytes) {
  if (backing_) backing_->reserve(MemorySlots::rounded(bytes));
}

OffloadBandwidth SlotMemory::measure(int64_t bytes) {
  OffloadBandwidth bandwidth;
  bytes = MemorySlots::rounded(bytes);
  if (most_bytes_)
    bytes = std::min(bytes, *most_bytes_ / MemorySlots::kAlignment * MemorySlots::kAlignment);
  // The host cannot time copies of a device's streams without waiting for them.
  if (!backing_ || !held_.empty() || bytes == 0 ||
      dynamic_cast<StreamBacking*>(backing_.get()) != nullptr)
    return bandwidth;
  std::vector<char> data(static_cast<size_t>(bytes));
  const auto rate = [&](bool writes) {
    const double begin = steady_seconds();
    copier_->wait(copier_->ask(writes, 0, data.data(), bytes));
    return static_cast<double>(bytes) / std::max(steady_seconds() - begin, 1e-9);
  };
  rate(true);  // a new file's first bytes cost more
  bandwidth.write = rate(true);
  bandwidth.read = rate(false);
  return bandwidth;
}

std::string SlotMemory::describe() const {
  return backing_ ? backing_->describe() : "counted alone";
}

std::unique_ptr<SlotMemory> make_second_memory(const SecondMemorySettings& settings,
                                               bool executes) {
  std::unique_ptr<SlotBacking> backing;
  if (executes && settings.path) backing = make_file_backing(*settings.path);
  if (executes && !settings.path) {
    const auto all = static_cast<int64_t>(physical_memory_bytes());
    backing =
        make_host_backing(MemorySlots::rounded(std::min(settings.most_bytes.value_or(all), all)));
  }
  // A dry run reports how much would be needed.
  return std::make_unique<SlotMemory>(std::move(backing),
                                      executes ? settings.most_bytes : std::nullopt);
}

}  // namespace viaduct
