#include "nn/exchange_segment.h"

#include "base/error.h"

namespace viaduct {
namespace {

/// What both parts share.
class ExchangeHalf : public Segment {
 public:
  explicit ExchangeHalf(std::shared_ptr<ExchangeSegment> exchange)
      : exchange_(std::move(exchange)) {}

  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }

 protected:
  static UnderWay& begun(const TensorSet& set) { return *set.under_way(); }
  static TensorSet with(ExchangeSegment::Begun begun) {
    TensorSet set;
    set.set_under_way(std::move(begun));
    return set;
  }
  std::shared_ptr<ExchangeSegment> exchange_;
};

class FirstHalf final : public ExchangeHalf {
 public:
  using ExchangeHalf::ExchangeHalf;

  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return exchange_->inputs(context, batch);
  }
  std::vector<std::string_view> outputs() const override { return {}; }
  std::vector<std::string_view> read_for_outputs() const override {
    return exchange_->read_for_outputs();
  }
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override {
    return with(exchange_->begin_forward(context, batch, in, saved));
  }
  TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                           SavedStore& saved) override {
    return exchange_->end_backward(context, batch, begun(d_out), saved);
  }
  std::string_view name() const override { return exchange_->name(); }
  ExchangePart exchange_part() const override { return ExchangePart::first; }
};

class SecondHalf final : public ExchangeHalf {
 public:
  explicit SecondHalf(std::shared_ptr<ExchangeSegment> exchange)
      : ExchangeHalf(std::move(exchange)), name_(std::string(exchange_->name()) + "_end") {}

  Edge inputs(const RankContext&, const Batch&) const override { return {}; }
  std::vector<std::string_view> outputs() const override { return exchange_->outputs(); }
  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) override {
    return exchange_->end_forward(context, batch, begun(in), saved);
  }
  TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                           SavedStore& saved) override {
    return with(exchange_->begin_backward(context, batch, d_out, saved));
  }
  std::string_view name() const override { return name_; }
  ExchangePart exchange_part() const override { return ExchangePart::second; }

 private:
  std::string name_;
};

}  // namespace

std::vector<std::unique_ptr<Segment>> in_two_parts(std::unique_ptr<ExchangeSegment> exchange) {
  VIADUCT_CHECK(ShapeError, exchange->parameters().empty(),
                "segment {}: an exchange in two parts has no parameters, found {}",
                exchange->name(), exchange->parameters().size());
  const std::shared_ptr<ExchangeSegment> shared = std::move(exchange);
  std::vector<std::unique_ptr<Segment>> parts;
  parts.push_back(std::make_unique<FirstHalf>(shared));
  parts.push_back(std::make_unique<SecondHalf>(shared));
  return parts;
}

}  // namespace viaduct
