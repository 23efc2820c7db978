#pragma once
// What the user typed, or has in a file of prompts or tasks, read by a reader of files.

#include "base/error.h"

namespace viaduct {

/// What `read` returns. Its IoError becomes a ConfigError of the same message: such input is wrong,
/// and no file of the run is damaged.
template <class F>
auto read_user_input(F&& read) {
  try {
    return read();
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace viaduct
