#pragma once
// How a launch over several runs of elements is cut into tasks.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace viaduct::cpu {

/// A task of a launch over several runs of elements: elements [begin, end) of run `run`.
struct ListTask {
  size_t run;
  int64_t begin, end;
};

/// Runs of `elements(i)` elements for i < runs, cut into tasks of at most `size`.
template <class Elements>
std::vector<ListTask> list_tasks(size_t runs, int64_t size, Elements elements) {
  std::vector<ListTask> tasks;
  for (size_t run = 0; run < runs; ++run) {
    const int64_t count = elements(run);
    for (int64_t begin = 0; begin < count; begin += size)
      tasks.push_back({run, begin, std::min(count, begin + size)});
  }
  return tasks;
}

}  // namespace viaduct::cpu
