#pragma once
// What one rendering may use. A template of unknown origin ends with an error where it would loop
// on, recurse or fill the memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "template/template_error.h"

namespace viaduct {

struct TemplateLimits {
  int64_t steps = 50'000'000;                 // evaluated expressions, statements and items
  int64_t made_bytes = int64_t{1} << 30;      // of all texts and lists made on the way
  int64_t output_bytes = int64_t{256} << 20;  // of one text
  int64_t small_bytes = int64_t{16} << 20;    // of one text or list, where little is given
  int depth = 1200;                           // of nested evaluations (each some hundred bytes)
};

class TemplateBudget {
 public:
  explicit TemplateBudget(const TemplateLimits& limits) : limits_(limits) { give(0); }

  /// Of variables of `bytes`. No text or list of a chat is much longer than what it is made of, and
  /// a template that doubles one ends before it takes memory.
  void give(int64_t bytes) {
    constexpr int64_t kGrowth = 64;  // of a list of the characters of a text
    largest_ = std::max(limits_.small_bytes, kGrowth * std::min(bytes, limits_.made_bytes));
  }

  void step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      template_fault("the template takes more than {} steps; it may never end", limits_.steps);
    }
  }
  /// Before `bytes` of text, or items of that size, are made.
  void make(size_t bytes) {
    if (static_cast<int64_t>(bytes) > largest_) {
      template_fault("a value of more than {} bytes", largest_);
    }
    made_ += static_cast<int64_t>(bytes);
    steps_ += static_cast<int64_t>(bytes) / 256;
    if (made_ > limits_.made_bytes) {
      template_fault("the template makes more than {} bytes of values", limits_.made_bytes);
    }
  }
  void make_text(size_t bytes) {
    check_text(bytes);
    make(bytes);
  }
  /// Before a text of `bytes` is searched for one of `other` bytes, at worst by comparing all of it
  /// everywhere.
  void search(size_t bytes, size_t other) {
    step(static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(other + 1) / 1024));
  }
  void check_text(size_t bytes) const {
    const int64_t most = std::min(limits_.output_bytes, largest_);
    if (static_cast<int64_t>(bytes) > most) template_fault("a text of more than {} bytes", most);
  }

  /// One level of nested evaluation.
  class Level {
   public:
    explicit Level(TemplateBudget& budget) : budget_(budget) {
      if (++budget.depth_ > budget.limits_.depth) {
        --budget.depth_;
        template_fault("the template is nested, or calls itself, deeper than {} levels",
                       budget.limits_.depth);
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TemplateBudget& budget_;
  };

 private:
  TemplateLimits limits_;
  int64_t steps_ = 0, made_ = 0, largest_ = 0;
  int depth_ = 0;
};

}  // namespace viaduct
