// Chooses the work that runs next.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "cuda_host/emulator.h"
#include "cuda_host/priority.h"
#include "cuda_host/runtime/state.h"

namespace cuda_host {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

/// Memory at a multiple of a huge page, in huge pages as far as they are filled: `guard` changes
/// the protection of every page at each piece of work, and a device has tens of MB.
void* map_memory(size_t bytes) {
  const size_t reserved = bytes + kHugePage;
  void* range =
      ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(range);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  char* const data = begin + before;
  if (before > 0) ::munmap(begin, before);
  ::munmap(data + bytes, reserved - before - bytes);
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

Runtime& runtime() {
  static Runtime instance;
  return instance;
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}

void reset_runtime(const RuntimeSettings& settings) {
  runtime().reset(settings);
}

RuntimeCounts runtime_counts() {
  const Runtime::Call call = runtime().call();
  return runtime().counts;
}

std::string connections_at_start() {
  const Runtime::Call call = runtime().call();
  return *runtime().connections_at_start;
}

int priority_of(const CUstream_st* stream) {
  const Runtime::Call call = runtime().call();
  return stream->priority;
}

void enqueue(CUstream_st* stream, const char* what, std::function<void()> work,
             const std::string& unit) {
  if (stream == nullptr) return work();
  const Runtime::Call call = runtime().call();
  if (call.error != cudaSuccess) throw Error(cudaGetErrorString(call.error));
  if (runtime().use(*stream, unit) != cudaSuccess) throw Error(runtime().failure);
  ++runtime().counts.kernels;
  runtime().push(stream, {what, std::move(work), {}, {}});
  if (runtime().sticky != cudaSuccess) throw Error(runtime().failure);
}

void spend(double seconds) {
  runtime().spend(seconds);
}

Runtime::Call Runtime::call() {
  Call call{Lock(mutex_), sticky};
  if (!connections_at_start) {
    const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    connections_at_start = set != nullptr ? set : "";
  }
  if (in_work_) call.error = cudaErrorNotPermitted;
  return call;
}

void Runtime::reset(const RuntimeSettings& to) {
  const Lock lock(mutex_);
  const auto of_device = [](const auto& block) { return block.second.device >= 0; };
  if (!streams.empty() || !ranges.empty() || !pieces.empty() ||
      std::any_of(blocks_.begin(), blocks_.end(), of_device))
    throw std::logic_error("the runtime's double: streams or memory of an earlier user are left");
  settings = to;
  counts = {};
  graphs = {};
  loaded.clear();
  connections_at_start.reset();
  random_.seed(to.seed);
  // With some seeds the host runs far ahead, with others the device follows closely.
  beside_ = std::array{1, 2, 8, 1'000'000}[random_() % 4];
  sticky = last = cudaSuccess;
  failure.clear();
}

void Runtime::push(CUstream_st* stream, Work work) {
  work.number = next_++;
  if (stream->capture != nullptr) {
    stream->capture->nodes.emplace_back(stream, std::move(work));
    return;
  }
  stream->queue.push_back(std::move(work));
  run_some();
}

void Runtime::run_some() {
  if (settings.seed == 0) {
    while (step_any()) {
    }
  } else {
    while (random_() % static_cast<uint64_t>(beside_ + 1) == 0 && step_any()) {
    }
  }
  open_memory(false);
}

void Runtime::draw_eagerness() {
  if (--until_draw_ > 0) return;
  until_draw_ = static_cast<int>(random_() % 60);
  for (CUstream_st* stream : streams)
    stream->eagerness = std::array{0.0005, 0.05, 1.0, 20.0}[random_() % 4];
}

bool Runtime::step_any() {
  draw_eagerness();
  std::exponential_distribution<double> turn;
  CUstream_st* best = nullptr;
  double first = 0;
  for (CUstream_st* stream : streams) {
    if (stream->queue.empty()) continue;
    const Work& work = stream->queue.front();
    if (work.waits != nullptr && !work.waits->open) continue;
    if (work.others_came && sticky == cudaSuccess && !work.others_came()) continue;
    const double at =
        settings.seed == 0 ? static_cast<double>(work.number) : turn(random_) / stream->eagerness;
    if (best == nullptr || at < first) best = stream, first = at;
  }
  if (best != nullptr) step(best);
  return best != nullptr;
}

void Runtime::step(CUstream_st* stream) {
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  const auto older = [&](CUstream_st* other) {
    return !other->queue.empty() && other->queue.front().number < work.number;
  };
  counts.out_of_order += std::any_of(streams.begin(), streams.end(), older);
  // After a failure no work runs, but all of it completes.
  if (work.run && sticky == cudaSuccess) {
    open_memory(true);
    emulator().set_seed(settings.seed == 0 ? 0 : random_());
    in_work_ = true;
    running_ = stream;
    try {
      work.run();
    } catch (const std::exception& error) {
      sticky = cudaErrorLaunchFailure;
      failure = work.what + ": " + error.what();
    }
    in_work_ = false;
    running_ = nullptr;
  }
  if (work.opens != nullptr) {
    work.opens->open = true;
    work.opens->opened = std::chrono::steady_clock::now();
    work.opens->spent = stream->spent;
  }
}

bool Runtime::waits_for_others() const {
  return std::any_of(streams.begin(), streams.end(), [](const CUstream_st* stream) {
    return !stream->queue.empty() && stream->queue.front().others_came;
  });
}

cudaError_t Runtime::until(const std::function<bool()>& done) {
  ++counts.host_waits;
  double waited = 0;
  while (!done()) {
    if (step_any()) {
      waited = 0;
      continue;
    }
    if (waited < settings.patience_seconds && waits_for_others()) {
      constexpr double kPause = 5e-5;
      open_memory(false);
      mutex_.unlock();  // held once: by the call that waits
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
      mutex_.lock();
      waited += kPause;
      continue;
    }
    sticky = cudaErrorUnknown;
    failure = "streams wait for each other:";
    for (const CUstream_st* stream : streams)
      if (!stream->queue.empty()) failure += " " + stream->queue.front().what;
    break;
  }
  open_memory(false);
  return sticky;
}

void Runtime::open_memory(bool open) {
  if (!settings.guard || open == open_) return;
  open_ = open;
  for (const auto& [data, block] : blocks_)
    if (block.device >= 0 && block.allowed)
      ::mprotect(data, block.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void* Runtime::take(size_t bytes, int device) {
  Block block{bytes, (bytes + kPage - 1) / kPage * kPage, device};
  void* data = map_memory(block.mapped);
  if (data == nullptr) return nullptr;
  std::memset(data, 0xff, bytes);
  blocks_[static_cast<char*>(data)] = block;
  if (settings.guard && device >= 0 && !open_) ::mprotect(data, block.mapped, PROT_NONE);
  return data;
}

/// No later allocation reuses its addresses while the program holds them, so that a later use is a
/// fault.
cudaError_t Runtime::give(void* data, bool pinned) {
  const auto found = blocks_.find(static_cast<char*>(data));
  if (found == blocks_.end() || (found->second.device < 0) != pinned) return cudaErrorInvalidValue;
  const int device = pinned ? current_device() : found->second.device;
  const cudaError_t error = until([&] {
    return std::all_of(streams.begin(), streams.end(), [&](const CUstream_st* stream) {
      return stream->device != device || stream->queue.empty();
    });
  });
  ::munmap(data, found->second.mapped);
  blocks_.erase(found);
  return error;
}

void Runtime::drop(void* data) {
  const auto found = blocks_.find(static_cast<char*>(data));
  if (found == blocks_.end() || found->second.device < 0)
    throw std::runtime_error("no memory of the device");
  ::munmap(data, found->second.mapped);
  blocks_.erase(found);
}

void Runtime::spend(double seconds) {
  if (running_ != nullptr) running_->spent += seconds;
}

bool Runtime::inside(const void* data, size_t bytes) const {
  const char* at = static_cast<const char*>(data);
  auto after = blocks_.upper_bound(const_cast<char*>(at));
  if (after == blocks_.begin()) return true;
  const auto& [begin, block] = *std::prev(after);
  const char* end = begin + block.bytes;
  while (block.mapped_piece && after != blocks_.end() && after->first == end) {
    end += after->second.bytes;
    ++after;
  }
  return at >= begin + block.mapped || at + bytes <= end;
}

bool Runtime::reserved(const char* at, size_t bytes) const {
  auto after = ranges.upper_bound(const_cast<char*>(at));
  if (after == ranges.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return at + bytes <= begin + size && static_cast<size_t>(at - begin) % settings.granule == 0;
}

bool Runtime::map(char* at, size_t bytes, int device) {
  if (blocks_.count(at) > 0) return false;
  blocks_[at] = {bytes, bytes, device, true, false};
  return true;
}

bool Runtime::unmap(char* at, size_t bytes) {
  const auto found = blocks_.find(at);
  if (found == blocks_.end() || !found->second.mapped_piece || found->second.bytes != bytes)
    return false;
  blocks_.erase(found);
  // Its addresses stay reserved, and its content is lost.
  return ::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

bool Runtime::peers_may_access(const void* data) const {
  auto after = blocks_.upper_bound(const_cast<char*>(static_cast<const char*>(data)));
  return after == blocks_.begin() || std::prev(after)->second.shared;
}

bool Runtime::allow(char* at, size_t bytes, bool shared) {
  const auto found = blocks_.find(at);
  if (found == blocks_.end() || !found->second.mapped_piece || found->second.bytes != bytes)
    return false;
  found->second.allowed = true;
  found->second.shared = shared;
  counts.shared_pieces += shared && settings.devices > 1;
  ::mprotect(at, bytes, PROT_READ | PROT_WRITE);
  std::memset(at, 0xff, bytes);
  if (settings.guard && !open_) ::mprotect(at, bytes, PROT_NONE);
  return true;
}

size_t Runtime::used(int device) const {
  size_t sum = 0;
  for (const auto& [data, block] : blocks_)
    if (block.device == device) sum += block.bytes;
  for (const auto& [handle, piece] : pieces)
    if (piece.device == device && !piece.mapped) sum += piece.bytes;
  return sum;
}

}  // namespace cuda_host
