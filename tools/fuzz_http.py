"""Ten thousand requests on the HTTP API, made up by schemathesis from its description.

    pip install "amberlog[server]" schemathesis
    python tools/fuzz_http.py --requests 10000

A directory of sessions lies beside one that may not be touched. It fails when an answer is a
server's error or is not as described, and when anything outside of the directory has changed. Where
`strace` is installed, every file that the server opens is looked at too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from amberlog import SessionStore

TOKEN = "only for this run"  # noqa: S105  # a made-up server's
SESSIONS = 60
OPERATIONS = 3
"""How many of the operations have arguments to make up; the others are asked a handful of times."""

_SERVER = """
import sys
import uvicorn
from amberlog.server import create_app
app = create_app(sys.argv[1], token=sys.argv[3])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
"""


def main() -> int:
    """Runs the server and schemathesis, and prints what was answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=8971)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        inside, outside = home / "inside", home / "outside"
        for directory in (inside, outside):
            directory.mkdir()
            _fill(directory)
        before = _state(outside)
        trace = home / "trace"
        server = _start(inside, arguments.port, trace)
        try:
            _wait(arguments.port)
            failed = _run(home, arguments.port, arguments.requests)
        finally:
            # strace does not pass a signal on to what it watches.
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
        answers = _answers(home / "report")
        opened = _opened(trace, home, inside)
        is_touched = _state(outside) != before
    print(f"{sum(answers.values())} requests: {dict(sorted(answers.items()))}")
    print(f"outside of the directory: changed {is_touched}, opened {opened}")
    errors = sum(count for status, count in answers.items() if status >= 500)
    return int(failed or is_touched or bool(opened) or errors > 0)


def _fill(directory: Path) -> None:
    for number in range(SESSIONS):
        with SessionStore(directory / f"s{number:03d}.kohakutr") as store:
            store.init_meta(f"s{number}", "agent", "/c", "/w", ["alice"])
            store.append_event("alice", "user_input", {"content": f"words {number}"})
    (directory / "empty.kohakutr").write_bytes(b"")
    (directory / "folder.kohakutr").mkdir()


def _state(directory: Path) -> dict[str, tuple[int, int]]:
    found = ((path, path.lstat()) for path in directory.rglob("*"))
    return {str(path): (look.st_size, look.st_mtime_ns) for path, look in found}


def _start(directory: Path, port: int, trace: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _SERVER, str(directory), str(port), TOKEN]
    strace = shutil.which("strace")
    if strace is not None:
        calls = "trace=open,openat,unlink,unlinkat,rename,rmdir,mkdir"
        command = [strace, "-f", "-qq", "-e", calls, "-o", str(trace), *command]
    return subprocess.Popen(command, start_new_session=True)


def _wait(port: int) -> None:
    wanted = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/sessions?refresh=true",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    for _ in range(300):
        try:
            with urllib.request.urlopen(wanted):  # noqa: S310  # the address is written above
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError("the server did not start")


def _run(home: Path, port: int, requests: int) -> bool:
    command = ["schemathesis", "run", f"http://127.0.0.1:{port}/openapi.json"]
    # Whether a cursor fits a listing, and whether a session exists, no schema can say.
    command += ["--exclude-checks", "positive_data_acceptance", "--continue-on-failure"]
    command += ["--phases", "coverage,fuzzing", "-n", str(-(-requests // OPERATIONS))]
    command += ["-H", f"Authorization: Bearer {TOKEN}"]
    command += ["--report", "ndjson", "--report-dir", str(home / "report"), "--no-color"]
    return subprocess.run(command, check=False, cwd=home).returncode != 0


def _answers(report: Path) -> Counter[int]:
    answers: Counter[int] = Counter()
    for file in report.glob("*.ndjson"):
        for line in file.read_text().splitlines():
            scenario = json.loads(line).get("ScenarioFinished")
            recorded = scenario["recorder"]["interactions"] if scenario else {}
            for one in recorded.values():
                response = one.get("value", one).get("response") or {"status_code": 0}
                answers[response["status_code"]] += 1
    return answers


def _opened(trace: Path, home: Path, inside: Path) -> list[str]:
    """Returns what was opened or removed below `home` but not below `inside`."""
    if not trace.exists():
        print("strace is not installed: what the server opens was not looked at")
        return []
    named = re.findall(r'"((?:[^"\\]|\\.)*)"', trace.read_text(errors="replace"))
    found = {os.path.normpath(path) for path in named if path.startswith(str(home))}
    allowed = str(inside)
    return sorted(path for path in found if path != allowed and not path.startswith(allowed + "/"))


if __name__ == "__main__":
    sys.exit(main())
