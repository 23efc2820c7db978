#include "device/cuda/growing_memory.h"

#include <utility>

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 256;
/// Addresses for each byte of the GPU: free ranges between those in use need no memory, so that a
/// range that is large enough is always found.
constexpr int64_t kAddresses = 4;

int64_t rounded_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::unique_ptr<GrowingMemory> GrowingMemory::make(int ordinal, int64_t gpu_bytes, bool peer_access,
                                                   Wait wait, std::string& missing) {
  missing.clear();
  const VirtualMemoryCalls calls(ordinal, peer_access, missing);
  if (!missing.empty()) return nullptr;
  const int64_t bytes = kAddresses * rounded_up(gpu_bytes, calls.granule());
  const CUdeviceptr base = calls.reserve(bytes);
  if (base == 0) {
    missing = "the driver has no range of addresses of " + std::to_string(bytes) + " bytes";
    return nullptr;
  }
  std::unique_ptr<GrowingMemory> memory(new GrowingMemory(calls, base, bytes, std::move(wait)));
  // One granule shows whether memory can be mapped for the GPU and its peers.
  try {
    int64_t mapped = 0;
    memory->map({0, calls.granule()}, mapped);
    memory->unmap_all();
  } catch (const DeviceError& error) {
    missing = error.what();
    return nullptr;
  }
  return memory;
}

GrowingMemory::GrowingMemory(const VirtualMemoryCalls& calls, CUdeviceptr base, int64_t bytes,
                             Wait wait)
    : calls_(calls),
      base_(base),
      bytes_(bytes),
      granule_(calls.granule()),
      wait_(std::move(wait)),
      free_{{0, bytes}} {}

GrowingMemory::~GrowingMemory() {
  try {
    unmap_all();
  } catch (const DeviceError&) {  // after an error of the GPU, which its caller has
  }
  calls_.free_addresses(base_, bytes_);
}

void GrowingMemory::unmap_all() {
  for (const int64_t granule : mapped_) calls_.unmap(address_of(granule));
  mapped_.clear();
}

GrowingMemory::Range GrowingMemory::find(int64_t size) const {
  for (const auto& [begin, end] : free_)
    if (end - begin >= size) return {begin, begin + size};
  return {};
}

bool GrowingMemory::map(const Range& range, int64_t& mapped) {
  const int64_t first = range.begin / granule_, last = (range.end - 1) / granule_;
  for (int64_t granule = first; granule <= last; ++granule) {
    if (mapped_.contains(granule)) continue;
    if (!calls_.map(address_of(granule))) return false;
    mapped_.insert(granule);
    mapped += granule_;
    calls_.allow(address_of(granule), granule_);
  }
  return true;
}

UnplannedMemory::Taken GrowingMemory::take(int64_t bytes) {
  const int64_t size = rounded_up(bytes, kAlignment);
  const Range range = find(size);
  Taken taken;
  if (range.end == 0) return taken;
  int64_t mapped = 0, released = 0;
  bool enough = map(range, mapped);
  if (!enough) {
    released = release_free();
    enough = map(range, mapped);
  }
  // Other ranks of the GPU may need what is not enough here.
  if (!enough) released += release_free();
  taken.reserved = mapped - released;
  if (!enough) return taken;
  const auto from = free_.find(range.begin);
  const int64_t end = from->second;
  free_.erase(from);
  if (range.end < end) free_.emplace(range.end, end);
  used_.emplace(range.begin, range.end);
  taken.data = reinterpret_cast<void*>(base_ + static_cast<CUdeviceptr>(range.begin));
  taken.requests = mapped > 0 ? 1 : 0;
  return taken;
}

void GrowingMemory::give(void* data, int64_t) {
  const auto used = used_.find(static_cast<int64_t>(reinterpret_cast<CUdeviceptr>(data) - base_));
  int64_t begin = used->first, end = used->second;
  used_.erase(used);
  auto after = free_.lower_bound(begin);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->second == begin) begin = before->first, free_.erase(before);
  }
  if (after != free_.end() && after->first == end) end = after->second, free_.erase(after);
  free_.emplace(begin, end);
}

bool GrowingMemory::has_free(int64_t bytes) const {
  const Range range = find(rounded_up(bytes, kAlignment));
  if (range.end == 0) return false;
  for (int64_t granule = range.begin / granule_; granule <= (range.end - 1) / granule_; ++granule)
    if (!mapped_.contains(granule)) return false;
  return true;
}

bool GrowingMemory::owns(void* data) const {
  const auto at = reinterpret_cast<CUdeviceptr>(data);
  return at >= base_ && at < base_ + static_cast<CUdeviceptr>(bytes_);
}

int64_t GrowingMemory::release_free() {
  // What was freed may still be in use by work that was given to a stream before.
  wait_();
  int64_t released = 0;
  for (const auto& [begin, end] : free_) {
    auto granule = mapped_.lower_bound(rounded_up(begin, granule_) / granule_);
    while (granule != mapped_.end() && (*granule + 1) * granule_ <= end) {
      calls_.unmap(address_of(*granule));
      granule = mapped_.erase(granule);
      released += granule_;
    }
  }
  return released;
}

}  // namespace viaduct
