#pragma once
// Graphs of launches that come again in each step, found by what they do. A graph holds no memory
// and no state of the program: it is launched only in place of exactly the launches that it was
// captured from, so it does not matter what else changed since.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "device/cuda/cuda_check.h"
#include "device/cuda/kept_launches.h"

namespace viaduct {

class LaunchGraphs {
 public:
  LaunchGraphs() = default;
  ~LaunchGraphs() { clear(); }
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  /// As LaunchGroups::begin_step.
  void begin_step(bool captures);
  /// Gives launches to `stream`: as a graph if they were given before and graphs are captured, else
  /// one by one. Whether it was a graph.
  bool give(const KeptLaunches& kept, cudaStream_t stream);
  /// Destroys all graphs; none may be running.
  void clear();

 private:
  struct Entry {
    cudaGraphExec_t exec = nullptr;  // null: seen, not captured
    int64_t step = 0;                // that used it last
  };
  std::unordered_map<std::string, Entry> entries_;
  int64_t step_ = 0;
  bool captures_ = false;
};

}  // namespace viaduct
