// A library needs a source; its precompiled header is what counts.
