#pragma once
// Under a launcher of processes each of them finds the same mistakes in a command line or a
// configuration, before ranks meet: one of them says it.

#include "base/error.h"

namespace viaduct::cli {

/// A usage or configuration error that the process of rank 0 says.
struct SaidByRank0 {};

/// False in processes that a launcher of MPI programs made ranks other than 0.
bool says_common_errors();

/// What every process of a run does before ranks meet, with one voice: SaidByRank0 in place of
/// ConfigError where another process says it. Errors of files are said by every process that has
/// them.
template <class F>
auto before_ranks(F&& prepare) {
  try {
    return prepare();
  } catch (const ConfigError&) {
    if (!says_common_errors()) throw SaidByRank0();
    throw;
  }
}

/// Gives rank 0 time to say it: launchers end all processes when one has failed, and this one when
/// rank 0 is done.
void wait_for_rank0();

}  // namespace viaduct::cli
