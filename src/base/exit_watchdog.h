#pragma once
// Ends a process that has finished its work but does not exit: libraries wait in their exit
// functions for threads that never started or for peers that are gone (MPI_Finalize of OpenMPI
// 4.1.4 after a rank was killed).
//
// It is a timer whose signal handler calls _exit: this works when no thread can be started and
// while any lock is held. The handler's status and text are lock-free atomics (see "No mutable
// globals" in docs/architecture.md).

namespace viaduct {

/// After `seconds` (≥ 1) from now the process writes `message`, a string literal with its line end,
/// to standard error and exits with `status`. A later call replaces an earlier one. Uses SIGALRM.
void end_process_after(int seconds, int status, const char* message);

/// Cancels the last call.
void let_process_live();

}  // namespace viaduct
