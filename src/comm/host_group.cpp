#include "comm/host_group.h"

#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"

namespace viaduct {
namespace {

std::string merge_figures(std::string lower, const std::string& upper) {
  VIADUCT_CHECK(CommError, lower.size() == upper.size(),
                "figures: one rank gives {} of them, another {}",
                lower.size() / sizeof(FigureOfRanks), upper.size() / sizeof(FigureOfRanks));
  for (size_t at = 0; at < lower.size(); at += sizeof(FigureOfRanks)) {
    FigureOfRanks a, b;
    std::memcpy(&a, lower.data() + at, sizeof a);
    std::memcpy(&b, upper.data() + at, sizeof b);
    a.merge(b);
    std::memcpy(lower.data() + at, &a, sizeof a);
  }
  return lower;
}

std::string keep_first(std::string lower, const std::string& upper) {
  return lower.empty() ? upper : lower;
}

std::string keep_lower(std::string lower, const std::string&) {
  return lower;
}

std::string append(std::string lower, const std::string& upper) {
  lower += upper;
  return lower;
}

/// Texts one after the other, each behind its length.
std::string framed(std::string_view text) {
  const uint64_t size = text.size();
  std::string frame(reinterpret_cast<const char*>(&size), sizeof size);
  frame += text;
  return frame;
}

std::vector<std::string> unframed(const std::string& frames) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < frames.size();) {
    uint64_t size = 0;
    std::memcpy(&size, frames.data() + at, sizeof size);
    texts.push_back(frames.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return texts;
}

class SaidCall final : public HostCall {
 public:
  explicit SaidCall(std::string text) : text_(std::move(text)) {}
  std::string wait() override { return std::move(text_); }

 private:
  std::string text_;
};

/// A call that records when the host waited for it.
class RecordedCall final : public HostCall {
 public:
  RecordedCall(std::unique_ptr<HostCall> call, Device& device, int64_t number)
      : call_(std::move(call)), device_(device), number_(number) {}

  std::string wait() override {
    const double begin = steady_seconds();
    std::string text = call_->wait();
    if (device_.record() != nullptr) device_.record()->host_call_done(number_, begin);
    return text;
  }

 private:
  std::unique_ptr<HostCall> call_;
  Device& device_;
  int64_t number_;
};

class StatedHostGroup final : public HostGroup {
 public:
  using HostGroup::HostGroup;

 private:
  std::unique_ptr<HostCall> start(Request request) override {
    const bool gets = request.to_all || rank() == 0;
    return std::make_unique<SaidCall>(gets ? std::move(request.mine) : "");
  }
  bool speaks_for_all() const override { return true; }
};

}  // namespace

void FigureOfRanks::merge(const FigureOfRanks& upper) {
  sum += upper.sum;
  counted += upper.counted;
  if (upper.least < least) least = upper.least, least_rank = upper.least_rank;
  if (upper.most > most) most = upper.most, most_rank = upper.most_rank;
}

HostCall::~HostCall() = default;
HostGroup::~HostGroup() = default;

std::vector<FigureOfRanks> PendingFigures::wait() {
  const auto call = std::move(call_);
  if (call == nullptr) return {};
  const std::string text = call->wait();
  std::vector<FigureOfRanks> figures(text.size() / sizeof(FigureOfRanks));
  std::memcpy(figures.data(), text.data(), figures.size() * sizeof(FigureOfRanks));
  return figures;
}

void HostGroup::record_on(Device* device, std::string_view group,
                          std::shared_ptr<const RankRule> members) {
  device_ = device;
  group_ = group;
  members_ = std::move(members);
}

std::unique_ptr<HostCall> HostGroup::call(Request request) {
  const int64_t sequence = calls_++;
  StepRecord* record = device_ != nullptr ? device_->record() : nullptr;
  if (record == nullptr) return start(std::move(request));
  HostCallRecord entry{.what = std::string(request.what), .group = group_, .members = members_};
  entry.place = rank_;
  entry.sequence = sequence;
  entry.bytes = static_cast<int64_t>(request.mine.size());
  const int64_t number = record->host_call(std::move(entry));
  return std::make_unique<RecordedCall>(start(std::move(request)), *device_, number);
}

PendingFigures HostGroup::post(std::span<const HostFigure> figures) {
  std::string mine;
  for (const HostFigure& figure : figures) {
    const bool counted = figure.counted || speaks_for_all();
    const FigureOfRanks one{.sum = counted ? figure.value : 0,
                            .least = figure.value,
                            .most = figure.value,
                            .counted = counted ? 1 : 0,
                            .least_rank = rank_,
                            .most_rank = rank_};
    mine.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  return PendingFigures(call({"figures", std::move(mine), merge_figures}));
}

double HostGroup::sum(double value, bool counted) {
  const HostFigure figure{value, counted};
  return post({&figure, 1}).wait().at(0).sum;
}

double HostGroup::most(double value) {
  const HostFigure figure{value};
  return post({&figure, 1}).wait().at(0).most;
}

std::optional<TextOfRank> HostGroup::first_text(std::string_view mine) {
  std::string text;
  if (!mine.empty()) {
    const int64_t rank = rank_;
    text.assign(reinterpret_cast<const char*>(&rank), sizeof rank);
    text += mine;
  }
  text = call({"first text", std::move(text), keep_first})->wait();
  if (text.empty()) return std::nullopt;
  TextOfRank first;
  std::memcpy(&first.rank, text.data(), sizeof first.rank);
  first.text = text.substr(sizeof first.rank);
  return first;
}

std::string HostGroup::text_of_rank_0(std::string_view mine) {
  return call({"text of rank 0", std::string(rank_ == 0 ? mine : ""), keep_lower})->wait();
}

std::vector<std::string> HostGroup::texts_on_rank_0(std::string_view mine) {
  return unframed(call({"texts on rank 0", framed(mine), append, false})->wait());
}

std::vector<std::string> HostGroup::texts_on_all(std::string_view mine) {
  return unframed(call({"texts on all", framed(mine), append})->wait());
}

std::string HostGroup::merge_on_rank_0(std::string mine, Merge merge) {
  return call({"merge on rank 0", std::move(mine), merge, false})->wait();
}

std::shared_ptr<HostGroup> make_stated_host_group(int rank, int size) {
  return std::make_shared<StatedHostGroup>(rank, size);
}

std::string merge_along_tree(std::vector<std::string> texts, HostGroup::Merge merge) {
  for (size_t step = 1; step < texts.size(); step *= 2) {
    for (size_t at = 0; at + step < texts.size(); at += 2 * step)
      texts[at] = merge(std::move(texts[at]), texts[at + step]);
  }
  return std::move(texts.front());
}

}  // namespace viaduct
