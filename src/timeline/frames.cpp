#include "timeline/frames.h"

#include <algorithm>
#include <map>
#include <utility>

namespace viaduct {
namespace {

/// The items that one instance keeps.
struct Instance {
  int kind = 0;
  int64_t number = 0;
  std::vector<size_t> lifetimes = {};
  int64_t begin = 0, end = 0;
};

/// Instances whose items have the same sizes and the same order in time.
struct Alike {
  std::vector<Lifetime> items;  // times as ranks of their order within an instance
  std::vector<Instance> instances = {};
};

std::vector<Alike> alike(const std::vector<Lifetime>& lifetimes,
                         const std::vector<FrameItem>& items) {
  std::map<std::pair<int, int64_t>, Instance> instances;
  for (const FrameItem& item : items) {
    Instance& instance = instances[{item.kind, item.instance}];
    const Lifetime& l = lifetimes[item.lifetime];
    const bool first = instance.lifetimes.empty();
    instance.kind = item.kind, instance.number = item.instance;
    instance.begin = first ? l.begin : std::min(instance.begin, l.begin);
    instance.end = std::max(instance.end, l.end);
    instance.lifetimes.push_back(item.lifetime);
  }
  std::vector<Alike> list;
  for (auto& [key, instance] : instances) {
    std::vector<Lifetime> own;
    for (const size_t index : instance.lifetimes) own.push_back(lifetimes[index]);
    own = with_dense_times(std::move(own));
    auto found = std::find_if(list.begin(), list.end(),
                              [&](const Alike& other) { return other.items == own; });
    if (found == list.end()) found = list.insert(list.end(), {std::move(own)});
    found->instances.push_back(std::move(instance));
  }
  std::erase_if(list, [](const Alike& one) { return one.instances.size() < 2; });
  return list;
}

/// Gives each instance, in the order of their begins, the lowest slot that is free; returns the
/// number of slots.
int assign_slots(std::vector<Instance>& instances, std::vector<int>& slots) {
  std::sort(instances.begin(), instances.end(),
            [](const Instance& a, const Instance& b) { return a.begin < b.begin; });
  std::vector<int64_t> free_from;  // by slot
  for (const Instance& instance : instances) {
    const auto slot = std::find_if(free_from.begin(), free_from.end(),
                                   [&](int64_t end) { return end <= instance.begin; }) -
                      free_from.begin();
    if (slot == static_cast<int64_t>(free_from.size())) free_from.push_back(0);
    free_from[static_cast<size_t>(slot)] = instance.end;
    slots.push_back(static_cast<int>(slot));
  }
  return static_cast<int>(free_from.size());
}

/// Frames one slot after the other; `offsets` gets those of all items.
std::vector<Frame> lay_out(std::vector<Alike> kinds, int64_t alignment,
                           std::vector<int64_t>& offsets) {
  std::vector<Frame> frames;
  int64_t base = 0;
  for (Alike& one : kinds) {
    // The backward mostly frees what its forward kept in the opposite order: then the lower part of
    // the frame is in use, and the rest is room for temporary items.
    Placement layout = place_oldest_first(one.items, alignment);
    Placement packed = place(one.items, alignment);
    if (packed.bytes < layout.bytes) layout = std::move(packed);
    std::vector<int> slots;
    const int count = assign_slots(one.instances, slots);
    for (size_t i = 0; i < one.instances.size(); ++i) {
      const Instance& instance = one.instances[i];
      const int64_t offset = base + slots[i] * layout.bytes;
      for (size_t item = 0; item < instance.lifetimes.size(); ++item)
        offsets[instance.lifetimes[item]] = offset + layout.offsets[item];
      frames.push_back({instance.kind, instance.number, slots[i], offset, layout.bytes});
    }
    base += count * layout.bytes;
  }
  return frames;
}

}  // namespace

FramedPlacement place_in_frames(const std::vector<Lifetime>& lifetimes,
                                const std::vector<FrameItem>& items, int64_t alignment,
                                int64_t beside) {
  FramedPlacement result;
  std::vector<int64_t> offsets(lifetimes.size(), kToBePlaced);
  result.frames = lay_out(alike(lifetimes, items), alignment, offsets);
  if (result.frames.empty()) return {place(lifetimes, alignment), {}};
  result.placement = place(lifetimes, alignment, offsets);
  const auto may_be = [&](int64_t bytes) {
    return kMostOfFrames * static_cast<double>(beside + bytes);
  };
  const auto taken = static_cast<double>(beside + result.placement.bytes);
  if (taken <= may_be(result.placement.lower_bound)) return result;
  Placement each = place(lifetimes, alignment);
  result.bytes_without_frames = each.bytes;
  if (taken > may_be(each.bytes)) {
    result.placement = std::move(each);
    result.frames.clear();
  }
  return result;
}

}  // namespace viaduct
