#include "cuda_host/emulator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

namespace cuda_host {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kSharedAlignment = 1024;  // as `dynamic_shared` of kernel.h

}  // namespace

// Allocates exactly the requested number of bytes, so that AddressSanitizer detects accesses beyond
// them.
void Emulator::Memory::reserve(size_t size) {
  constexpr std::align_val_t kAligned{kSharedAlignment};
  bytes = size;
  data = std::shared_ptr<void>(::operator new(size, kAligned),
                               [](void* memory) { ::operator delete(memory, kAligned); });
}

void Emulator::Memory::poison() {
  std::memset(data.get(), 0xff, bytes);
}

void Emulator::thread_main() {
  Emulator& e = emulator();
  Fiber::entered(e.scheduler_);
  try {
    (*e.body_)();
    if (!e.copies_[static_cast<size_t>(e.current_->number)].list.empty())
      e.fail("a thread leaves without waiting for its copies");
    if (e.products_.has_sums_under_way(e.current_->number))
      e.fail("a thread leaves without waiting for its products");
  } catch (const std::exception& broken) {
    if (e.error_.empty()) e.error_ = broken.what();
  }
  Thread& thread = *e.current_;
  thread.wait = Wait::left;
  --e.live_;
  e.warps_[thread.number / kWarp].live &= ~(1u << (thread.number % kWarp));
  for (;;) Fiber::switch_to(*thread.fiber, e.scheduler_);
}

void Emulator::pause() {
  Fiber::switch_to(*current_->fiber, scheduler_);
}

void Emulator::fail(const std::string& what) const {
  const auto& b = block_index_;
  throw Error(what + " (block " + std::to_string(b.x) + "," + std::to_string(b.y) + "," +
              std::to_string(b.z) + ", thread " + std::to_string(current_ ? current_->number : -1) +
              ")");
}

void* Emulator::shared(const void* key, size_t bytes) {
  for (Memory& memory : shared_)
    if (memory.key == key) return memory.data.get();
  Memory& memory = shared_.emplace_back();
  memory.key = key;
  memory.reserve(bytes);
  memory.poison();
  return memory.data.get();
}

void* Emulator::dynamic_shared() {
  return dynamic_.data.get();
}

bool Emulator::is_shared(const void* at) const {
  const auto holds = [&](const Memory& memory) {
    const auto* const begin = static_cast<const char*>(memory.data.get());
    return at >= begin && at < begin + memory.bytes;
  };
  return current_ != nullptr && (holds(dynamic_) || std::ranges::any_of(shared_, holds));
}

void Emulator::stop(const std::string& what) {
  try {
    fail(what);
  } catch (const Error& error) {
    error_ = error.what();
  }
  pause();
}

void Emulator::check_shared(const void* at, size_t bytes, const char* what) const {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto holds = [&](const Memory& memory) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data.get());
    return address >= begin && address + bytes <= begin + memory.bytes;
  };
  if (address % bytes != 0 || (!holds(dynamic_) && !std::ranges::any_of(shared_, holds)))
    fail(std::string(what) + ": an address that is not in shared memory or not aligned");
}

void Emulator::Copy::land() {
  if (landed) return;
  landed = true;
  std::memcpy(to, from, read);
  std::memset(to + read, 0, bytes - read);
}

// Without a seed a copy completes at once; with one, half of them do.
void Emulator::begin_copy(void* to, const void* from, size_t bytes, size_t read) {
  check_shared(to, bytes, "cp.async");
  if (reinterpret_cast<uintptr_t>(from) % bytes != 0)
    fail("cp.async: a source that is not aligned");
  Copies& copies = copies_[static_cast<size_t>(current_->number)];
  Copy& copy = copies.list.emplace_back(
      Copy{static_cast<char*>(to), static_cast<const char*>(from), bytes, read, copies.groups});
  any_copies_ = true;
  products_.begin_write(current_->number, to, bytes);
  if (watch_ != nullptr) watch_->write(to, bytes);
  if (seed_ == 0 || (random_() & 1) != 0) return copy.land();
  std::memset(to, 0xff, bytes);
}

void Emulator::commit_copies() {
  ++copies_[static_cast<size_t>(current_->number)].groups;
}

void Emulator::wait_for_copies(int but) {
  Copies& copies = copies_[static_cast<size_t>(current_->number)];
  std::erase_if(copies.list, [&](Copy& copy) {
    if (copy.group >= copies.groups - but) return false;
    copy.land();
    products_.end_write(current_->number, copy.to);
    if (watch_ != nullptr) watch_->write(copy.to, copy.bytes);
    return true;
  });
}

void Emulator::note_write(const void* to, size_t bytes) {
  products_.begin_write(current_->number, to, bytes);
  products_.end_write(current_->number, to);
}

void Emulator::start_product(const ProductStart& start, int operation) {
  static_assert(sizeof start <= sizeof(Warp::in[0]));
  int nothing;
  collective(~0u, operation, &start, sizeof start, &nothing, 0,
             [](Warp& warp) { emulator().join_product(warp); });
}

// Without a seed a product is performed as soon as it is complete.
void Emulator::join_product(const Warp& warp) {
  any_products_ = true;
  if (!products_.start(current_->number / kWarp * kWarp, warp)) return;
  if (seed_ == 0) products_.perform_some(~uint64_t{0});
  for (Thread& thread : threads_)
    if (thread.wait == Wait::products) thread.wait = Wait::none;
}

void Emulator::wait_for_products(int but) {
  while (!products_.finish(current_->number, but)) {
    current_->wait = Wait::products;
    pause();
  }
}

void Emulator::land_some_copies() {
  for (Copies& copies : copies_)
    for (Copy& copy : copies.list)
      if ((random_() & 3) == 0) copy.land();
}

bool Emulator::block_barrier(bool value) {
  any_ = any_ || value;
  ++at_barrier_;
  current_->wait = Wait::block;
  pause();
  return any_result_;
}

void Emulator::collective(uint32_t mask, int operation, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes, void (*perform)(Warp&)) {
  Warp& warp = warps_[static_cast<size_t>(current_->number / kWarp)];
  const int lane = this->lane(), first = current_->number - lane;
  if ((mask >> lane & 1) == 0) fail("a lane calls a warp collective whose mask leaves it out");
  if ((mask & ~warp.live) != 0) fail("a warp collective names a lane that has left");
  if (warp.arrived == 0) {
    warp.operation = operation, warp.mask = mask;
  } else if (warp.operation != operation || warp.mask != mask) {
    fail("lanes of a warp meet in different collectives");
  }
  std::memcpy(warp.in[lane], in, in_bytes);
  warp.arrived |= 1u << lane;
  if (warp.arrived == mask) {
    perform(warp);
    warp.arrived = 0;
    for (int other = 0; other < kWarp; ++other) {
      if ((mask >> other & 1) != 0) threads_[static_cast<size_t>(first + other)].wait = Wait::none;
    }
  } else {
    current_->wait = Wait::warp;
    pause();
  }
  std::memcpy(out, warp.out[lane], out_bytes);
}

void Emulator::warp_barrier(uint32_t mask, int operation) {
  int nothing = 0;
  collective(mask, operation, &nothing, sizeof nothing, &nothing, 0, [](Warp& warp) {
    Emulator& e = emulator();
    if (e.watch_ != nullptr) e.watch_->warp_barrier(e.current_->number - e.lane(), warp.mask);
  });
}

void Emulator::begin_block(int64_t number) {
  block_index_ = {static_cast<unsigned>(number % grid_.x),
                  static_cast<unsigned>(number / grid_.x % grid_.y),
                  static_cast<unsigned>(number / grid_.x / grid_.y)};
  const auto threads = static_cast<int>(block_.count());
  while (static_cast<int>(fibers_.size()) < threads) fibers_.emplace_back(kStackBytes, thread_main);
  threads_.assign(static_cast<size_t>(threads), {});
  warps_.resize(static_cast<size_t>((threads + kWarp - 1) / kWarp));
  for (size_t w = 0; w < warps_.size(); ++w) {
    const int lanes = std::min(kWarp, threads - static_cast<int>(w) * kWarp);
    warps_[w].live = lanes == kWarp ? ~0u : (1u << lanes) - 1;
    warps_[w].arrived = 0;
  }
  copies_.assign(static_cast<size_t>(threads), {});
  any_copies_ = any_products_ = false;
  products_.begin_block(threads, static_cast<const char*>(dynamic_.data.get()), dynamic_.bytes);
  for (int i = 0; i < threads; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    const auto n = static_cast<unsigned>(i);
    thread.fiber = &fibers_[static_cast<size_t>(i)];
    thread.fiber->restart();
    thread.number = i;
    thread.index = {n % block_.x, n / block_.x % block_.y, n / (block_.x * block_.y)};
  }
  for (Memory& memory : shared_) memory.poison();
  dynamic_.poison();
  live_ = threads, at_barrier_ = 0, any_ = false;
  error_.clear();
  order_.resize(threads_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (watch_ != nullptr) watch_->begin_block(threads);
}

/// Resumes a thread if it can continue.
bool Emulator::run(Thread& thread) {
  if (thread.wait != Wait::none) return false;
  current_ = &thread;
  Fiber::switch_to(scheduler_, *thread.fiber);
  // The other threads are dropped where they are: kernels own no resources.
  if (!error_.empty()) throw Error(error_);
  return true;
}

void Emulator::run_fair(bool& ran) {
  if (seed_ != 0) std::shuffle(order_.begin(), order_.end(), random_);
  for (const int i : order_) ran = run(threads_[static_cast<size_t>(i)]) || ran;
}

void Emulator::run_skewed(bool& ran) {
  const size_t count = warps_.size(), first = random_() % count;
  for (size_t k = 0; k < count; ++k) {
    const size_t begin = (first + k) % count * kWarp,
                 end = std::min(begin + kWarp, threads_.size());
    for (bool again = true; again;) {
      again = false;
      for (size_t i = begin; i < end; ++i) again = run(threads_[i]) || again;
      ran = ran || again;
    }
  }
}

void Emulator::release_block() {
  current_ = nullptr;
  if (live_ != static_cast<int>(threads_.size()))
    fail("a barrier of a block that some threads have left");
  for (Thread& thread : threads_) thread.wait = Wait::none;
  if (watch_ != nullptr) watch_->block_barrier();
  at_barrier_ = 0;
  any_result_ = any_;
  any_ = false;
}

void Emulator::step() {
  bool ran = false;
  if (any_copies_ && seed_ != 0 && (random_() & 3) == 0) land_some_copies();
  if (any_products_ && seed_ != 0 && (random_() & 3) == 0) products_.perform_some(random_());
  seed_ != 0 && (random_() & 1) != 0 ? run_skewed(ran) : run_fair(ran);
  if (at_barrier_ > 0 && at_barrier_ == live_) {
    release_block();
    ran = true;
  }
  current_ = nullptr;
  if (!ran && live_ > 0) fail("threads wait for each other, or for some that have left");
}

void Emulator::run_together(Emulator& other) {
  Emulator*& now = current_emulator().now;
  try {
    while (live_ > 0 || other.live_ > 0) {
      now = other.live_ == 0 || (live_ > 0 && (random_() & 1) != 0) ? this : &other;
      now->step();
    }
  } catch (...) {
    now = this;
    throw;
  }
  now = this;
}

void Emulator::begin_launch(Extent grid, Extent block, size_t dynamic_bytes,
                            const std::function<void()>& body) {
  grid_ = grid, block_ = block, block_index_ = {};
  current_ = nullptr;
  if (block.count() < 1 || block.count() > 1024 || grid.count() < 1 || grid.y > 65535 ||
      grid.z > 65535 || grid.x > 0x7fffffffu || dynamic_bytes > kMostSharedBytes)
    fail("a launch beyond the limits of a device");
  body_ = &body;
  random_.seed(seed_);
  shared_.clear();
  dynamic_.reserve(dynamic_bytes);
}

void Emulator::launch(Extent grid, Extent block, size_t dynamic_bytes,
                      const std::function<void()>& body) {
  begin_launch(grid, block, dynamic_bytes, body);
  std::vector<int64_t> blocks(static_cast<size_t>(grid.count()));
  std::iota(blocks.begin(), blocks.end(), int64_t{0});
  const bool in_pairs = seed_ != 0 && watch_ == nullptr && blocks.size() > 1;
  if (seed_ != 0) std::shuffle(blocks.begin(), blocks.end(), random_);
  if (in_pairs) {
    if (partner_ == nullptr) partner_ = std::make_unique<Emulator>();
    partner_->set_seed(random_() | 1);
    partner_->begin_launch(grid, block, dynamic_bytes, body);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    begin_block(blocks[i]);
    if (in_pairs && i + 1 < blocks.size() && (random_() & 1) != 0) {
      partner_->begin_block(blocks[++i]);
      run_together(*partner_);
    } else {
      while (live_ > 0) step();
    }
  }
}

}  // namespace cuda_host
