#include "support/stream_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"

namespace viaduct::test {
namespace {

using Clock = std::chrono::steady_clock;

void poison(void* data, int64_t bytes) {
  std::memset(data, 0xff, static_cast<size_t>(bytes));
}

void check_equal(const Tensor& from, const Tensor& to) {
  VIADUCT_CHECK(
      ShapeError, from.bytes() == to.bytes() && from.is_contiguous() && to.is_contiguous(),
      "copy: expected contiguous tensors of one size, got {} to {}", describe(from), describe(to));
}

}  // namespace

StreamDevice::StreamDevice(uint64_t seed, OpTable kernels, double patience_seconds)
    : kernels_(std::move(kernels)),
      random_(seed),
      patience_(patience_seconds),
      // With some seeds the host runs far ahead, with others the device follows closely.
      beside_host_(std::array{1, 2, 8, 1000000}[random_() % 4]) {}

StreamDevice::~StreamDevice() {
  closing_ = true;
  streams_.clear();
  release_held();
  for (const auto& [data, size] : blocks_) std::free(data);
}

void StreamDevice::push(int stream, std::string what, Work work) {
  enqueue(stream, std::move(what), std::move(work));
  while (random_() % static_cast<uint64_t>(beside_host_ + 1) == 0 && step_any()) {
  }
}

void StreamDevice::enqueue(int stream, std::string what, Work work) {
  if (streams_.size() <= static_cast<size_t>(stream))
    streams_.resize(static_cast<size_t>(stream) + 1);
  const int64_t position = record_event(stream).position;
  streams_[static_cast<size_t>(stream)].queue.push_back(
      {position, next_number_++, std::move(what), std::move(work)});
}

void StreamDevice::enqueue_wait(int stream, const Event& event) {
  enqueue(stream, fmt::format("wait for {} {}", stream_name(event.stream), event.position),
          [this, event] { return passed(event); });
  streams_[static_cast<size_t>(stream)].queue.back().waits_for_stream = true;
}

bool StreamDevice::passed(const Event& event) {
  if (record_event(event.stream).position < event.position) return false;
  const auto stream = static_cast<size_t>(event.stream);
  if (stream >= streams_.size() || streams_[stream].queue.empty()) return true;
  return streams_[stream].queue.front().position > event.position;
}

bool StreamDevice::step(size_t stream) {
  auto& queue = streams_[stream].queue;
  if (queue.empty() || !queue.front().work()) return false;
  const int64_t number = queue.front().number;
  queue.pop_front();
  out_of_order_ += std::any_of(streams_.begin(), streams_.end(), [&](const Stream& other) {
    return !other.queue.empty() && other.queue.front().number < number;
  });
  return true;
}

void StreamDevice::draw_eagerness() {
  // If all turns were fair, a stream would rarely fall far behind the others.
  if (--until_draw_ > 0) return;
  until_draw_ = static_cast<int>(random_() % 60);
  for (Stream& stream : streams_)
    stream.eagerness = std::array{0.0005, 0.05, 1.0, 20.0}[random_() % 4];
}

bool StreamDevice::step_any() {
  draw_eagerness();
  std::vector<std::pair<double, size_t>> order;
  std::exponential_distribution<double> turn;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].queue.empty()) order.emplace_back(turn(random_) / streams_[i].eagerness, i);
  }
  std::sort(order.begin(), order.end());
  return std::any_of(order.begin(), order.end(), [&](auto& one) { return step(one.second); });
}

void StreamDevice::run_some() {
  step_any();
}

void StreamDevice::run_until(FunctionRef<bool()> done) {
  auto last = Clock::now();
  while (!done()) {
    if (step_any()) {
      last = Clock::now();
      continue;
    }
    const bool others = std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
      return !stream.queue.empty() && !stream.queue.front().waits_for_stream;
    });
    if (!others) give_up("wait for each other");
    if (Clock::now() - last > patience_) give_up("never become ready");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void StreamDevice::give_up(std::string_view why) const {
  std::string heads;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].queue.empty()) continue;
    heads += fmt::format("{}{} at {}", heads.empty() ? "" : "; ", stream_name(static_cast<int>(i)),
                         streams_[i].queue.front().what);
  }
  fail<DeviceError>("stream device: streams {}: {}", why, heads);
}

void StreamDevice::finish() {
  run_until([&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const Stream& stream) { return stream.queue.empty(); });
  });
}

void StreamDevice::wait_host(const Event& event) {
  run_until([&] { return passed(event); });
}

void StreamDevice::copy_from_host(const Tensor& host, const Tensor& device) {
  check_equal(host, device);
  // The host may write to its tensor after this returns.
  std::string bytes(static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes()));
  launched(kComputeStream);
  push(kComputeStream, "copy from the host", [bytes = std::move(bytes), to = device.raw()] {
    std::memcpy(to, bytes.data(), bytes.size());
    return true;
  });
}

void StreamDevice::copy_to_host(const Tensor& device, const Tensor& host) {
  check_equal(device, host);
  wait_host(record_event(kComputeStream));
  std::memcpy(host.raw(), device.raw(), static_cast<size_t>(host.bytes()));
}

void StreamDevice::copy(const Tensor& from, const Tensor& to, int stream) {
  check_equal(from, to);
  push(stream, "copy", [from = from.raw(), to = to.raw(), bytes = from.bytes()] {
    std::memmove(to, from, static_cast<size_t>(bytes));
    return true;
  });
}

std::byte* StreamDevice::scratch(int64_t bytes) {
  if (!scratch_ || scratch_.bytes() < bytes + 64) scratch_ = host_tensor(DType::u8, {bytes + 64});
  poison(scratch_.raw(), scratch_.bytes());
  const auto address = reinterpret_cast<uintptr_t>(scratch_.raw());
  return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
}

void* StreamDevice::take(int64_t bytes, MemoryTag) {
  const int64_t size = (bytes + 63) / 64 * 64;
  void* data = nullptr;
  if (const auto found = free_.lower_bound(size);
      found != free_.end() && found->first <= 4 * size) {
    data = found->second;
    free_.erase(found);
  } else {
    data = std::aligned_alloc(64, static_cast<size_t>(size));
    VIADUCT_CHECK(DeviceError, data != nullptr, "stream device: no memory for {} bytes", bytes);
    blocks_[data] = size;
  }
  const int64_t all = blocks_.at(data);
  launched(kComputeStream);
  push(kComputeStream, "take", [=] { return poison(data, all), true; });
  return data;
}

void StreamDevice::give(void* data, int64_t) {
  if (closing_) return;
  const int64_t size = blocks_.at(data);
  launched(kComputeStream);
  // Runs no work: destructors call this, also after a rank has failed.
  enqueue(kComputeStream, "give back", [=] { return poison(data, size), true; });
  free_.emplace(size, data);
}

}  // namespace viaduct::test
