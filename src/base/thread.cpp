#include "base/thread.h"

#include <memory>
#include <system_error>
#include <utility>

namespace viaduct {
namespace {

struct Attributes {
  pthread_attr_t value;
  Attributes() { pthread_attr_init(&value); }
  ~Attributes() { pthread_attr_destroy(&value); }
};

extern "C" void* run_thread(void* argument) {
  const std::unique_ptr<std::function<void()>> main(static_cast<std::function<void()>*>(argument));
  (*main)();
  return nullptr;
}

}  // namespace

Thread::Thread(std::function<void()> main) {
  Attributes attributes;
  int error = pthread_attr_setstacksize(&attributes.value, kThreadStackBytes);
  auto argument = std::make_unique<std::function<void()>>(std::move(main));
  if (error == 0) error = pthread_create(&thread_, &attributes.value, run_thread, argument.get());
  if (error != 0)
    throw std::system_error(error, std::generic_category(), "cannot start another thread");
  argument.release();  // owned by the new thread
  joinable_ = true;
}

Thread::Thread(Thread&& other) noexcept
    : thread_(other.thread_), joinable_(std::exchange(other.joinable_, false)) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  std::swap(thread_, other.thread_);
  std::swap(joinable_, other.joinable_);
  return *this;
}

Thread::~Thread() {
  if (joinable_) join();
}

void Thread::join() {
  pthread_join(thread_, nullptr);
  joinable_ = false;
}

}  // namespace viaduct
