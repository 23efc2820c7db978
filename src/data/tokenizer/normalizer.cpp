#include "data/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"

namespace viaduct {
namespace {

int flags_of(NormalForm form) {
  switch (form) {
    case NormalForm::nfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::nfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::nfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::nfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

struct Free {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

std::string to_form(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &raw,
                   static_cast<utf8proc_option_t>(flags_of(form)));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(raw);
  VIADUCT_CHECK(Error, bytes >= 0, "Unicode normalization of {} bytes failed: {}", text.size(),
                utf8proc_errmsg(bytes));
  return {reinterpret_cast<const char*>(raw), static_cast<size_t>(bytes)};
}

}  // namespace

std::optional<std::string> Normalizer::normalize(std::string_view text) const {
  if (forms.empty()) return std::nullopt;
  // ASCII is unchanged in every form.
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<signed char>(c) >= 0; })) {
    return std::nullopt;
  }
  std::string out = to_form(text, forms.front());
  for (size_t i = 1; i < forms.size(); ++i) out = to_form(out, forms[i]);
  return out;
}

}  // namespace viaduct
