#include "cuda_host/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// void cuda_host_switch(void** saved, void* next): pushes the registers that a call preserves
// (System V ABI), stores the stack pointer in *saved, and resumes where `next` was stopped in the
// same way.
asm(R"(
.text
.globl cuda_host_switch
.type cuda_host_switch, @function
cuda_host_switch:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  retq
.size cuda_host_switch, . - cuda_host_switch
)");
extern "C" void cuda_host_switch(void** saved, void* next);
#endif

namespace cuda_host {

struct Fiber::State {
#if defined(__x86_64__)
  void* top = nullptr;  // the stack pointer while the fiber does not run
#else
  ucontext_t context;
#endif
  char* stack = nullptr;  // null: the thread's own
  size_t bytes = 0;
  void (*entry)() = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's, while the fiber does not run
  const void* bottom = nullptr;
  size_t bottom_bytes = 0;  // where AddressSanitizer expects the stack
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::Fiber(Fiber&&) noexcept = default;

Fiber::Fiber(size_t stack_bytes, void (*entry)()) : state_(std::make_unique<State>()) {
  void* stack =
      mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  state_->stack = static_cast<char*>(stack);
  state_->bytes = stack_bytes;
  state_->entry = entry;
  state_->bottom = stack, state_->bottom_bytes = stack_bytes;
  restart();
}

Fiber::~Fiber() {
  if (!state_ || state_->stack == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(state_->stack, state_->bytes);
#endif
  munmap(state_->stack, state_->bytes);
}

void Fiber::restart() {
  State& s = *state_;
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(s.stack, s.bytes);
  s.fake_stack = nullptr;
#endif
#if defined(__x86_64__)
  // As if `entry` had been called: its return address (none) lies at a multiple of 16 plus 8.
  auto** top =
      reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(s.stack) + s.bytes) & ~uintptr_t{15});
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(s.entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  s.top = top;
#else
  getcontext(&s.context);
  s.context.uc_stack.ss_sp = s.stack;
  s.context.uc_stack.ss_size = s.bytes;
  s.context.uc_link = nullptr;
  makecontext(&s.context, s.entry, 0);
#endif
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.state_->fake_stack, to.state_->bottom,
                                 to.state_->bottom_bytes);
#endif
#if defined(__x86_64__)
  cuda_host_switch(&from.state_->top, to.state_->top);
#else
  swapcontext(&from.state_->context, &to.state_->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.state_->fake_stack, nullptr, nullptr);
#endif
}

void Fiber::entered(Fiber& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.state_->bottom, &from.state_->bottom_bytes);
#else
  static_cast<void>(from);
#endif
}

}  // namespace cuda_host
