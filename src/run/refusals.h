#pragma once
// Settings that a kind of models does not have yet, said by name.

#include <string_view>

#include "config/problems.h"

namespace viaduct {

/// Adds a problem for each setting whose value is not implemented for such models.
class Refusals {
 public:
  /// `models`: behind "is not implemented" ("with model.encoder_num_layers"). `otherwise`: what can
  /// be done instead of giving the expected value; "": nothing. Both must outlive it.
  Refusals(Problems& problems, std::string_view models, std::string_view otherwise = "")
      : problems_(problems), models_(models), otherwise_(otherwise) {}

  /// `found` is refused unless `holds`. `expected`: the value that is implemented; `reason`: behind
  /// the models, in parentheses.
  template <class Found, class Expected>
  void expect(bool holds, std::string_view field, const Found& found, const Expected& expected,
              std::string_view reason = "") {
    if (holds) return;
    problems_.add("{}: {} is not implemented {}{}{}{}; expected {}{}{}", field, found, models_,
                  reason.empty() ? "" : " (", reason, reason.empty() ? "" : ")", expected,
                  otherwise_.empty() ? "" : ", or ", otherwise_);
  }

 private:
  Problems& problems_;
  std::string_view models_, otherwise_;
};

}  // namespace viaduct
