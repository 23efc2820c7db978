#pragma once
// Launches for compute that the host keeps, to give them to the GPU together (launch_groups.h):
// what they do, and bytes that are equal exactly for equal launches. No CUDA header.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace viaduct {

class KeptLaunches {
 public:
  bool empty() const { return work_.empty(); }
  /// Kernels and other work that the host would launch one by one.
  int launches() const { return launches_; }
  const std::string& key() const { return key_; }

  /// Describes the next launch: everything that its work depends on.
  template <class T>
  void note(const T& value) {
    static_assert(std::is_scalar_v<T>);
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void note_text(std::string_view text) {
    note(text.size());
    key_ += text;
  }
  /// The launch that was described, which gives its work to compute when it is called.
  void add(int launches, std::function<void()> work) {
    launches_ += launches;
    work_.push_back(std::move(work));
  }

  void run() const {
    for (const std::function<void()>& work : work_) work();
  }

 private:
  std::string key_;
  std::vector<std::function<void()>> work_;
  int launches_ = 0;
};

}  // namespace viaduct
