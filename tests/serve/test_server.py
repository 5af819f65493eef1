"""`vitrail studio` as a command: what it refuses in one line, and a real server that ends with Ctrl-C."""

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--host", "0.0.0.0"], "no password"),
        (["--port", "70000"], "--port"),
        (["--memory", "0"], "--memory"),
        (["nowhere/at/all"], "no such"),
    ],
)
def test_what_cannot_be_served_is_reported_in_one_line(command, runs, monkeypatch, words, expected):
    monkeypatch.chdir(runs.parent)
    answer = command("studio", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("vitrail: ")
    assert expected in answer.err
    assert answer.err.count("\n") == 1


def test_without_any_run_it_says_how_to_train_one(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = command("studio")
    assert answer.code == 2
    assert "vitrail train --data digits" in answer.err


def test_a_port_that_is_taken_is_named(command, runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = command("studio", str(runs / "cls"), "--port", port)
    assert answer.code == 2
    assert str(port) in answer.err


@pytest.mark.parametrize("module", ["fastapi", "uvicorn", "python_multipart"])
def test_a_missing_package_is_one_line_with_its_remedy(command, runs, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    answer = command("studio", str(runs / "cls"))
    assert answer.code == 2
    assert 'pip install "vitrail[serve]"' in answer.err


def test_a_real_server_answers_and_ends_cleanly(runs, environment):
    """One process, from its first line to Ctrl-C."""
    server = subprocess.Popen(
        [sys.executable, "-m", "vitrail", "studio", str(runs / "cls"), "--port", "0"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.status == 200
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "uvicorn" not in answer.headers.get("Server", "")
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)
    finally:
        server.kill()
    assert (server.returncode, out, err) == (130, "", "stopped\n")
