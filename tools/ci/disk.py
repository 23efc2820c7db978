"""Room on the file systems that a run of the checks writes to."""

import os
import shutil
import tempfile

NEEDED_GIB = 16  # builds of all presets, checkouts of the tests in the folder of temporary files, and the compiler cache


def warning(folders, needed_gib=NEEDED_GIB, free_of=lambda folder: shutil.disk_usage(folder).free):
    """A line about folders with less room than a run may take; None if all have enough. A full disk looks like any failure: compilers and tests say
    only that they cannot write."""
    short = []
    for folder in folders:
        free = free_of(folder) / 2**30
        if free < needed_gib:
            short.append(f"{folder} ({free:.1f} GiB)")
    if not short:
        return None
    return f"== warning: a run writes up to {needed_gib} GiB, and less is free in {', '.join(short)}: what fails below may lack room"


def written_folders():
    return [os.getcwd(), tempfile.gettempdir()]
