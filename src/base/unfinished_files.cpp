#include "base/unfinished_files.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace viaduct {
namespace {

enum State : int { kFree, kTaken, kListed };

constexpr int kPathSlots = 256;
constexpr size_t kPathBytes = 4096;

struct PathSlot {
  std::atomic<int> state{kFree};  // kListed: `path` is a text, and names an unfinished file
  char path[kPathBytes];
};
static_assert(std::atomic<int>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

PathSlot path_slots[kPathSlots];
std::atomic<bool> ending{false};  // a signal is ending the process: no path changes any more

constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP};

// Calls only unlink, sigaction and raise, which are bare system calls.
extern "C" void on_ending_signal(int signal) {
  const int saved_errno = errno;
  ending.store(true);
  for (PathSlot& slot : path_slots) {
    if (slot.state.load(std::memory_order_acquire) == kListed) ::unlink(slot.path);
  }
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  raise(signal);  // blocked until this returns
  errno = saved_errno;
}

}  // namespace

RemovesUnfinishedFiles::RemovesUnfinishedFiles() {
  static_assert(kEndingSignals.size() == kSignals);
  struct sigaction action {};
  action.sa_handler = on_ending_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : kEndingSignals) sigaddset(&action.sa_mask, signal);
  for (size_t i = 0; i < kSignals; ++i) {
    sigaction(kEndingSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler != SIG_IGN) sigaction(kEndingSignals[i], &action, nullptr);
  }
}

RemovesUnfinishedFiles::~RemovesUnfinishedFiles() {
  for (size_t i = 0; i < kSignals; ++i) sigaction(kEndingSignals[i], &previous_[i], nullptr);
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  if (path.size() >= kPathBytes || ending.load()) return;
  for (int i = 0; i < kPathSlots && slot_ < 0; ++i) {
    int free = kFree;
    if (path_slots[i].state.compare_exchange_strong(free, kTaken)) slot_ = i;
  }
  if (slot_ < 0) return;
  std::memcpy(path_slots[slot_].path, path.c_str(), path.size() + 1);
  path_slots[slot_].state.store(kListed, std::memory_order_release);
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ >= 0) path_slots[slot_].state.store(kFree, std::memory_order_release);
}

}  // namespace viaduct
