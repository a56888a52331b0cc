"""Entry point on EMR Serverless: checks the job's archive against the hash that the run was started with, then runs it.

    start.py SHA256 SCRIPT ARGUMENTS…

EMR has unpacked job.tar.gz as ./job. `SHA256` is that of job/contents.json, which says that of each other file, and
`SCRIPT` one of them, such as commit.py. Until all of it is what it should be, nothing of it is on Python's path: this
file needs Python's own library and no more.

Exit codes: those of the script; 3 the archive is another one, and nothing of it was run.
"""

import hashlib
import json
import os
import runpy
import sys
from collections.abc import Iterator, Sequence

CONTENTS = "contents.json"


def differences(folder: str, sha256: str) -> Iterator[str]:
    """What of `folder` is not as the contents of that hash say: files that differ, are missing, or nobody put there."""
    try:
        with open(os.path.join(folder, CONTENTS), "rb") as opened:
            text = opened.read()
    except OSError as error:
        yield f"{CONTENTS} can't be read: {error.strerror}"
        return
    if hashlib.sha256(text).hexdigest() != sha256:
        yield f"{CONTENTS} has another hash than {sha256}"
        return
    files = json.loads(text)["files"]
    there = set(_files(folder)) - {CONTENTS}
    yield from (f"{name} is not in {CONTENTS}" for name in sorted(there - set(files)))
    for name, expected in sorted(files.items()):
        if name not in there:
            yield f"{name} is missing"
            continue
        with open(os.path.join(folder, name), "rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != expected:
                yield f"{name} has another hash"


def _files(folder: str) -> Iterator[str]:
    """All files below `folder`; a link to a folder counts as one, for Python would import from it."""
    for path, folders, names in os.walk(folder):
        links = (name for name in folders if os.path.islink(os.path.join(path, name)))
        yield from (os.path.relpath(os.path.join(path, name), folder) for name in (*names, *links))


def main(arguments: Sequence[str]) -> int:
    """Checks, and runs the script, which exits by itself. -> the exit code where it did not run."""
    sha256, script, *rest = arguments
    folder = os.path.abspath("job")
    found = next(differences(folder, sha256), None)
    if found is not None:
        print(
            f"start.py: {found}: the job's archive is not what was packaged, and nothing of it was run", file=sys.stderr
        )
        return 3
    sys.path.insert(0, folder)
    sys.argv = [script, *rest]
    runpy.run_path(os.path.join(folder, script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
