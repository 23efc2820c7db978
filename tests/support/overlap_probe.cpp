#include "support/overlap_probe.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "comm/completed_operation.h"
#include "comm/start_request.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"

namespace viaduct::test {
namespace {

using Clock = std::chrono::steady_clock;
using Open = OverlapProbe::Open;

thread_local OverlapProbe* probe_of_thread = nullptr;

/// Performs the operations of a deferring communicator, in order, at the first wait.
struct Deferred {
  std::deque<std::pair<std::shared_ptr<Open>, std::function<CommHandle()>>> asked;
  void do_all() {
    std::vector<std::shared_ptr<Open>> begun;
    for (; !asked.empty(); asked.pop_front()) {
      begun.push_back(asked.front().first);
      begun.back()->handle = asked.front().second();
      begun.back()->deferred = false;
    }
    for (const auto& open : begun) {
      open->handle.wait();
      open->counted = true;  // complete, but not during a kernel
    }
  }
};

class ProbedOperation final : public CommOperation {
 public:
  ProbedOperation(OverlapProbe& probe, std::shared_ptr<Open> open, std::shared_ptr<Deferred> defers)
      : probe_(probe), open_(std::move(open)), deferred_(std::move(defers)) {}
  ~ProbedOperation() override {
    if (open_->deferred) deferred_->do_all();  // a handle that is dropped is waited for
    probe_.closed(open_.get());
  }
  bool ready() override { return !open_->deferred && open_->handle.ready(); }
  void wait() override {
    deferred_->do_all();
    open_->handle.wait();
    probe_.closed(open_.get());
  }

 private:
  OverlapProbe& probe_;
  std::shared_ptr<Open> open_;
  std::shared_ptr<Deferred> deferred_;
};

class ProbedCommunicator final : public Communicator {
 public:
  ProbedCommunicator(std::shared_ptr<Communicator> inner, OverlapProbe& probe, bool defers,
                     std::shared_ptr<Deferred> deferred)
      : Communicator(inner->name()),
        inner_(std::move(inner)),
        probe_(probe),
        defers_(defers),
        deferred_(std::move(deferred)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void fail_all(std::string_view cause) override { inner_->fail_all(cause); }

 private:
  std::unique_ptr<CommOperation> start(const CommRequest& r) override {
    auto open = std::make_shared<Open>();
    open->what = std::string(choice_name(r.collective)) + " " + name();
    if (defers_) {
      open->deferred = true;
      deferred_->asked.emplace_back(open, [inner = inner_, r] { return start_request(*inner, r); });
    } else {
      open->handle = start_request(*inner_, r);
    }
    probe_.opened(open);
    return std::make_unique<ProbedOperation>(probe_, std::move(open), deferred_);
  }

  std::shared_ptr<HostGroup> make_host_group() override { return {inner_, &inner_->host()}; }
  std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                              std::string name) override {
    return std::make_shared<ProbedCommunicator>(inner_->split(members, std::move(name)), probe_,
                                                defers_, deferred_);
  }

  std::shared_ptr<Communicator> inner_;
  OverlapProbe& probe_;
  bool defers_;
  std::shared_ptr<Deferred> deferred_;  // of the world and all its splits
};

/// The table whose kernels run the op; functions of a table have no state.
const OpTable& real() {
  static const OpTable table = cpu_ops(instruction_set());
  return table;
}

template <class Args, OpEntry<Args> OpTable::*kEntry>
void launch_probed(OpContext& context, const Choice& choice, const Args& args, void* workspace) {
  (real().*kEntry).launch(context, choice, args, workspace);
  if (probe_of_thread != nullptr) probe_of_thread->kernel_runs();
}

}  // namespace

int OverlapProbe::hidden(const std::string& what) const {
  const auto found = hidden_.find(what);
  return found == hidden_.end() ? 0 : found->second;
}

void OverlapProbe::opened(std::shared_ptr<Open> operation) {
  open_.push_back(std::move(operation));
}

void OverlapProbe::closed(const Open* operation) {
  std::erase_if(open_, [&](const auto& open) { return open.get() == operation; });
}

void OverlapProbe::kernel_runs() {
  const auto end = Clock::now() + std::chrono::duration<double>(patience_seconds_);
  for (const auto& open : open_) {
    if (open->counted) continue;
    bool ready = false;
    while (!(ready = !open->deferred && open->handle.ready()) && Clock::now() < end)
      std::this_thread::yield();
    open->counted = true;
    if (ready) {
      ++hidden_[open->what];
    } else {
      ++stuck_;
    }
  }
}

std::shared_ptr<Communicator> probed(std::shared_ptr<Communicator> inner, OverlapProbe& probe,
                                     bool defers) {
  return std::make_shared<ProbedCommunicator>(std::move(inner), probe, defers,
                                              std::make_shared<Deferred>());
}

OpTable probed(OpTable table) {
  table.gemm.launch = launch_probed<GemmArgs, &OpTable::gemm>;
  table.attention_forward.launch = launch_probed<AttentionForwardArgs, &OpTable::attention_forward>;
  table.attention_backward.launch =
      launch_probed<AttentionBackwardArgs, &OpTable::attention_backward>;
  return table;
}

ProbedThread::ProbedThread(OverlapProbe& probe) {
  probe_of_thread = &probe;
}
ProbedThread::~ProbedThread() {
  probe_of_thread = nullptr;
}

}  // namespace viaduct::test
