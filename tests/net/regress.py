"""`make regress REF=COMMIT`: does the working tree still compute, bit for bit, what a commit computed?

One tiny seeded run a task and method, and some variants, by each of the two trees; then every file of the runs, and what `eval`,
`predict` and their like answer, is compared. No test of pytest's: it takes minutes, and needs a commit to compare with.
"""

import argparse
import contextlib
import csv
import difflib
import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
BUILD = ROOT / "build" / "regress"
WORK = BUILD / "work"  # of both trees, one after the other: a path that gets into a file is the same
SHOWN = 10  # lines of a difference
KEPT = 500_000  # characters of a text that is kept for showing differences
TIMEOUT = 300
EPOCHS_STOPPED = 6

# Files of words, which a redesign may put in other words: compared only with --all.
WORDS = ("config.yaml", "report.html", "wrong_labels.csv", "example.png", "*: report.html", "*README.md", "train: printed")
# What of a run's folder is not compared: checkpoints have the elapsed seconds in them, machine.yaml the version of the package.
LEFT_OUT = ("state/*", "machine.yaml")
TIMES = ("seconds",)  # columns of results.csv
# In texts: how long training took, and the room of the cache, a quarter of the memory that is free just then.
CHANCE = re.compile(
    r"(?<=trained in )[\d:]+|(?<=epochs in )[\d:]+|(?<=epoch in )[\d:]+|(?<=cache_gb: )[\d.]+|(?<=<dt>cache_gb</dt><dd>)[\d.]+"
)


@dataclass(frozen=True)
class Run:
    """A training, and what is asked of it afterwards: (label, words). Paths are as seen from the folder WORK."""

    name: str
    words: tuple[str, ...]
    after: tuple[tuple[str, tuple[str, ...]], ...] = ()
    needs: tuple[str, ...] = ()
    how: str = "plain"  # stopped: interrupted and resumed; two: by two processes
    same: str | None = None  # the run whose weights, metrics and predictions it must have


def asked(label: str, *words: str) -> tuple[str, tuple[str, ...]]:
    """A command about a run; files that it writes go to the folder out/NAME-LABEL, and are compared."""
    return label, words


D = "../data"
QUICK = ("--device", "cpu", "--seed", "3")
EYES = ("--workers", "0", *QUICK)
STRIPES, QUADRANTS = f"{D}/stripes.npz", f"{D}/quadrants.npz"
NANO = ("--model", "vit_nano_patch4_32", "--batch", "24", "--epochs", "2", *EYES)
SMALL_TEXT = ("--epochs", "2", "--batch-tokens", "128", "--longest", "16", "--vocabulary", "40", *QUICK)
PHOTOS = ("--task", "restore", "--data", f"{D}/photos", "--patch-size", "8", "--patches", "1", "--model", "unet_nano")
LONG = ("train", "--data", QUADRANTS, "--model", "vit_nano_patch4_32", "--batch", "8", "--epochs", str(EPOCHS_STOPPED), *EYES)
EVAL = asked("eval", "eval", "{run}", "--json")


def pretrain(method: str, data: str, *words: str) -> tuple[str, ...]:
    return ("pretrain", "--method", method, "--data", data, "--batch", "24", "--epochs", "2", *words, *EYES)


RUNS = (
    # Those that others need come first.
    Run("mae", pretrain("mae", QUADRANTS, "--model", "vit_nano_patch4_32"), (
        EVAL, asked("protocol", "eval", "{run}", "--protocol", "knn,linear", "--labels", "0.5,1", "--json"))),
    Run("dvae", pretrain("dvae", STRIPES, "--codes", "8"), (EVAL,)),
    Run("teacher", ("train", "--data", QUADRANTS, "--model", "resnet8_32", "--image-size", "10", "--in-channels", "3", "--batch", "24",
                    "--epochs", "2", *EYES)),
    Run("whole", LONG),
    Run("mri", ("train", "--task", "mri", "--data", f"{D}/ball.nii.gz", "--model", "mri_unet_small", "--image-size", "24", "--batch", "2",
                "--epochs", "1", *QUICK), (
        EVAL, asked("eval-other", "eval", "{run}", "--data", f"{D}/scan.npz", "--json"))),
    Run("segment3d", ("train", "--task", "segment3d", "--data", f"{D}/balls", "--model", "convfree_micro", "--crop", "16", "16", "16",
                      "--batch", "1", "--epochs", "1", *QUICK), (
        EVAL, asked("eval-other", "eval", "{run}", "--data", f"{D}/other_balls", "--json", "--out", "{out}"),
        asked("predict", "predict", "{run}", f"{D}/other_balls/images/case0.nii.gz", "--out", "{out}", "--json"))),
    Run("classify", ("train", "--data", "digits", "--model", "vit_nano_conv", "--batch", "256", "--epochs", "1", *EYES), (
        EVAL, asked("eval-other", "eval", "{run}", "--data", f"{D}/numbers", "--json", "--workers", "0", "--out", "{out}"),
        asked("predict", "predict", "{run}", f"{D}/numbers", "--json"))),
    Run("translate", ("train", "--task", "translate", "--data", f"{D}/pairs", "--source", "lo", "--target", "up", "--beams", "2",
                      *SMALL_TEXT), (
        EVAL, asked("translate", "translate", "{run}", "ab cd", "gh ef ab", "--json"))),
    Run("language", ("train", "--task", "language", "--data", f"{D}/verses.txt", *SMALL_TEXT), (
        EVAL, asked("complete", "complete", "{run}", "ab cd", "--samples", "3", "--seed", "5", "--longest", "8"))),
    Run("language_masked", ("train", "--task", "language", "--masked", "--data", f"{D}/verses.txt", *SMALL_TEXT), (EVAL,)),
    Run("caption", ("train", "--task", "caption", "--data", f"{D}/colors", "--batch", "12", "--longest", "9", "--beams", "2", "--epochs",
                    "2", *EYES), (
        EVAL, asked("caption", "caption", "{run}", f"{D}/colors/01.png", f"{D}/colors/02.png", "--json", "--out", "{out}"))),
    Run("igpt", pretrain("igpt", f"{D}/lines.npz"), (
        EVAL, asked("complete", "complete", "{run}", f"{D}/numbers/0", "--out", "{out}", "--samples", "2", "--seed", "5"))),
    Run("dino", pretrain("dino", QUADRANTS, "--model", "vit_nano_patch4_32"), (EVAL,)),
    Run("moco", pretrain("moco", QUADRANTS, "--model", "vit_nano_patch4_32"), (EVAL,)),
    Run("beit", pretrain("beit", STRIPES, "--tokenizer", "runs/dvae"), (EVAL,), needs=("dvae",)),
    Run("restore", ("train", *PHOTOS, "--degrade", "sr2", "--batch", "4", "--epochs", "2", *EYES), (
        asked("eval", "eval", "{run}", "--split", "val", "--json"), asked("restore", "restore", "{run}", f"{D}/photos/03.png", "--out", "{out}"))),
    Run("segment", ("train", "--task", "segment", "--data", f"{D}/marked", "--model", "vit_nano_patch4_32", "--head", "linear", "--batch",
                    "4", "--epochs", "2", *EYES), (
        EVAL, asked("eval-ways", "eval", "{run}", "--flip-test", "--scales", "0.75", "1", "--window", "12", "16", "--json"),
        asked("predict", "predict", "{run}", f"{D}/marked/images/03.png", f"{D}/marked/images/04.png", "--out", "{out}", "--json"))),
    Run("detect", ("train", "--task", "detect", "--data", f"{D}/blood", "--queries", "5", "--image-size", "16", "24", "--batch", "4",
                   "--bad-files", "0.2", "--epochs", "2", *EYES), (
        asked("eval", "eval", "{run}", "--json", "--bad-files", "0.2"),
        asked("predict", "predict", "{run}", f"{D}/blood/JPEGImages/03.png", "--threshold", "0.05", "--out", "{out}", "--json"))),
    # Variants.
    Run("stopped", LONG, how="stopped", needs=("whole",), same="whole"),
    Run("two_processes", ("train", "--data", QUADRANTS, *NANO), (EVAL,), how="two"),
    Run("two_processes_restore", ("train", *PHOTOS, "--degrade", "noise25", "--batch", "2", "--epochs", "1", "--lr", "auto", *EYES),
        how="two"),
    Run("finetuned", ("train", "--data", QUADRANTS, "--weights", "runs/mae", "--batch", "24", "--epochs", "2", "--labels", "0.5", *EYES),
        needs=("mae",)),
    Run("packed", ("train", "--data", f"{D}/sizes", "--pack", "--model", "vit_nano_patch4_32", "--image-size", "16", "--batch", "4",
                   "--epochs", "2", *EYES), (
        EVAL, asked("predict", "predict", "{run}", f"{D}/sizes/class1", "--json", "--top-k", "1"))),
    Run("distilled", ("train", "--data", QUADRANTS, "--model", "deit_nano_distilled_patch4_32", "--teacher", "runs/teacher", "--batch",
                      "24", "--epochs", "2", *EYES), (EVAL,), needs=("teacher",)),
    Run("mixed", ("train", "--data", QUADRANTS, *NANO, "--mixup", "0.4", "--cutmix", "1", "--repeats", "2", "--progressive", "0.5",
                  "--token-keep", "0.7")),
    Run("balanced", ("train", "--data", f"{D}/unequal.npz", *NANO, "--balance", "sampling", "--lr", "auto")),
)  # fmt: skip


# ---- data: small, drawn from seeds, the same files for both trees


def write_data(folder: Path) -> None:
    """By tests/examples, which the conformance suite reads too."""
    from examples import images, text, volumes

    folder.mkdir(parents=True)
    images.write_quadrants(folder / "quadrants.npz", {"train": 96, "val": 15, "test": 18})
    images.write_quadrants(folder / "unequal.npz", {"train": 96, "val": 16, "test": 16}, labels=images.UNEQUAL)
    images.write_stripes(folder / "stripes.npz", side=8, grays=(0, 255), seed=0)
    images.write_stripes(folder / "lines.npz", side=4, grays=(0, 60, 130, 200, 255), seed=1)
    images.write_sizes(folder / "sizes")
    images.write_colors(folder / "colors", extra={"gone.png": "nobody saw it"})
    images.write_photos(folder / "photos")
    images.write_numbers(folder / "numbers")
    images.write_masks(folder / "marked")
    images.write_boxes(folder / "blood")
    (folder / "blood" / "JPEGImages" / "02.png").write_bytes(b"no image")
    text.write_lines(folder / "verses.txt")
    text.write_pairs(folder / "pairs", {"train": 60, "val": 5, "test": 7})
    volumes.write_ball(folder / "ball.nii.gz")
    volumes.write_kspace(folder / "scan.npz")
    volumes.write_scans(folder / "balls", count=4, seed=5)
    volumes.write_scans(folder / "other_balls", count=2, seed=6)


# ---- what a tree computes


def environment(tree: Path) -> dict[str, str]:
    """The same for both trees, and nothing of the user's that changes numbers or lines."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    fixed = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "100", "LANG": "C.UTF-8",
             "MPLBACKEND": "Agg", "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    return {**kept, **fixed, "PYTHONPATH": str(tree / "src")}


def call(tree: Path, words: Sequence[str], *, two: bool = False) -> tuple[int, str, str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if two else []
    try:
        done = subprocess.run(
            [sys.executable, *launcher, "-m", "vitrail", *words],
            cwd=WORK, env=environment(tree), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, "", f"it took more than {TIMEOUT} s"
    return done.returncode, done.stdout, done.stderr


def count_rows(path: Path) -> int:
    try:
        return len(path.read_text().splitlines()) - 1
    except OSError:
        return 0


def stop_and_resume(tree: Path, words: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """SIGINT once the first epoch is in results.csv, then --resume. When it comes is chance; the end must not depend on it."""
    command = [sys.executable, "-m", "vitrail", *words]
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
        with subprocess.Popen(
            command,
            cwd=WORK,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as running:
            begin = time.monotonic()
            while running.poll() is None and count_rows(folder / "results.csv") < 1 and time.monotonic() - begin < TIMEOUT:
                time.sleep(0.002)
            running.send_signal(signal.SIGINT)
            _, output = running.communicate(timeout=TIMEOUT)
        rows = count_rows(folder / "results.csv")
        if running.returncode == 130 and 1 <= rows < EPOCHS_STOPPED and not (folder / "metrics.json").exists():
            return call(tree, [*words, "--resume"])
        if running.returncode not in (0, 130):
            return running.returncode, "", output.decode()
    return -1, "", f"it could not be stopped in the middle: after SIGINT results.csv has {rows} of {EPOCHS_STOPPED} epochs"


Found = dict[str, dict[str, str]]  # by what it is called: {"sha", "text"}; or {"code", "text"}


def compute(run: Run, tree: Path) -> Found:
    """All that a run leaves behind, as hashes, with texts where there are any."""
    folder, found = WORK / "runs" / run.name, Found()
    words = [*run.words, "--out", f"runs/{run.name}"]
    if run.how == "stopped":
        code, out, err = stop_and_resume(tree, words, folder)
    else:
        code, out, err = call(tree, words, two=run.how == "two")
    note_exit(found, "train", code, err)
    if run.how != "stopped":  # whose lines are those of the epochs that were left
        note(found, "train: printed", out.encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if not any(fnmatch(name, pattern) for pattern in LEFT_OUT):
            note(found, name, without_times(path))
    for label, asking in run.after if code == 0 else ():
        out_folder = f"out/{run.name}-{label}"
        code_after, out, err = call(tree, [word.format(run=f"runs/{run.name}", out=out_folder) for word in asking])
        note_exit(found, label, code_after, err)
        note(found, f"{label}: printed", out.encode())
        for path in sorted(path for path in (WORK / out_folder).rglob("*") if path.is_file()):
            note(found, f"{label}: {path.relative_to(WORK / out_folder).as_posix()}", without_times(path))
    return found


def without_times(path: Path) -> bytes:
    """A file's content; of results.csv without the columns of times, of .gz unpacked: its header has the time of writing."""
    content = path.read_bytes()
    if path.name == "results.csv":
        rows, text = csv.DictReader(io.StringIO(content.decode(), newline="")), io.StringIO()
        writer = csv.DictWriter(text, [name for name in rows.fieldnames or () if name not in TIMES], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def note(found: Found, name: str, content: bytes) -> None:
    """A hash; and a text to show differences by: of weights a line a tensor, of JSON a line an entry."""
    if name.endswith(".safetensors"):
        found[name] = {"sha": hashlib.sha256(content).hexdigest(), "text": list_tensors(content)}
        return
    try:
        text = content.decode()
    except UnicodeDecodeError:
        found[name] = {"sha": hashlib.sha256(content).hexdigest()}
        return
    if name.endswith("tokenizer.json"):
        text = list_tokenizer(json.loads(text))
    text = CHANCE.sub("(...)", text.replace(f"{ROOT}/", ""))
    text = re.sub(r"(?<=\d )pictures(?=, \d+ samples each)", "images", text)  # a word of `vitrail complete` that changed
    text = re.sub(r"\ba (?=picture)", "an ", text).replace("picture", "image")  # in the messages of earlier commits
    found[name] = {"sha": hashlib.sha256(text.encode()).hexdigest()}
    with contextlib.suppress(ValueError):
        text = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    if name.endswith(".html"):  # a line an element; figures within a page shortened to the beginning and a hash
        lines = text.replace("><", ">\n<").splitlines()
        text = "\n".join(
            line if len(line) < 300 else f"{line[:100]} {hashlib.sha256(line.encode()).hexdigest()[:12]}" for line in lines
        )
    if len(text) <= KEPT:
        found[name]["text"] = text


def note_exit(found: Found, label: str, code: int, err: str) -> None:
    found[f"{label}: exit code"] = {"code": str(code), "text": f"exit code {code}\n" + (err[-1500:] if code else "")}


def failures(found: Found) -> list[str]:
    return [name for name, entry in found.items() if entry.get("code", "0") != "0"]


def list_tensors(content: bytes) -> str:
    """Name, kind, shape and the beginning of the hash of each."""
    start = 8 + int.from_bytes(content[:8], "little")
    lines = []
    for name, entry in json.loads(content[8:start]).items():
        if name == "__metadata__":
            lines.append(f"{name} {entry}")
            continue
        begin, end = entry["data_offsets"]
        sha = hashlib.sha256(content[start + begin : start + end]).hexdigest()[:12]
        lines.append(f"{name} {entry['dtype']} {entry['shape']} {sha}")
    return "\n".join(lines)


def list_tokenizer(found: dict[str, Any]) -> str:
    """What a tokenizer does, whether its file has the first format or Hugging Face's."""
    if "model" in found:
        model, normalizers = found["model"], found["normalizer"]["normalizers"]
        vocab = model["vocab"]
        found = {"lower": {"type": "Lowercase"} in normalizers, "bytes": model["byte_fallback"],
                 "pieces": sorted(vocab, key=vocab.__getitem__), "merges": model["merges"]}  # fmt: skip
    return json.dumps({key: found[key] for key in ("lower", "bytes", "pieces", "merges")}, ensure_ascii=False)


def processor_seconds() -> float:
    """Of all commands so far: on a machine that others use too it says more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compute_all(runs: Sequence[Run], tree: Path, label: str, *, jobs: int, keep: bool) -> dict[str, Found]:
    """By the code of one tree, several runs at a time; a run begins when those that it needs are done."""
    where = subprocess.run(
        [sys.executable, "-c", "import vitrail; print(vitrail.__file__)"],
        cwd=BUILD, env=environment(tree), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if where.returncode or not Path(where.stdout.strip()).is_relative_to(tree):
        sys.exit(f"regress: the code of {tree} cannot be imported: {where.stdout.strip()} {where.stderr.strip()[-500:]}")
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "runs").mkdir(parents=True)
    (WORK / "out").mkdir()
    futures: dict[str, Future[Found]] = {}
    begin, worked, done = time.monotonic(), processor_seconds(), list[str]()

    def one(run: Run) -> Found:
        for name in run.needs:  # started before: RUNS has them first
            futures[name].result()
        start = time.monotonic()
        found = compute(run, tree)
        done.append(run.name)
        failed = failures(found)
        print(f"{label}  {len(done):>2}/{len(runs)}  {run.name:<22} {time.monotonic() - start:5.1f} s"
              + (f"  FAILED: {', '.join(failed)}" if failed else ""), flush=True)  # fmt: skip
        return found

    with ThreadPoolExecutor(jobs) as pool:
        for run in runs:
            futures[run.name] = pool.submit(one, run)
    spent, worked = time.monotonic() - begin, processor_seconds() - worked
    print(f"{label}  {len(runs)} runs in {spent:.0f} s, {worked:.0f} s of processor time", flush=True)
    if keep:
        shutil.rmtree(BUILD / f"runs-{label}", ignore_errors=True)
        WORK.rename(BUILD / f"runs-{label}")
    shutil.rmtree(WORK, ignore_errors=True)
    return {name: future.result() for name, future in futures.items()}


# ---- the two trees


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def clean_commit() -> str | None:
    """The commit that the working tree is; None if anything is changed."""
    return None if git("status", "--porcelain") else git("rev-parse", "HEAD")


@contextlib.contextmanager
def checked_out(sha: str) -> Iterator[Path]:
    tree = BUILD / sha / "tree"
    remove_tree(tree)
    git("worktree", "add", "--detach", str(tree), sha)
    try:
        yield tree
    finally:
        remove_tree(tree)


def remove_tree(tree: Path) -> None:
    with contextlib.suppress(ValueError):  # it is not there
        git("worktree", "remove", "--force", str(tree))
    shutil.rmtree(tree.parent, ignore_errors=True)
    git("worktree", "prune")


def results_of(
    sha: str | None,
    runs: Sequence[Run],
    key: str,
    work: Callable[[Sequence[Run]], dict[str, Found]],
    *,
    cache: bool,
    still: Callable[[], bool] = lambda: True,
) -> dict[str, Found]:
    """Those of a commit from its file, and what is missing in it computed; without a commit (a dirty tree) all computed.

    `still`: whether the tree has stayed that commit while it was computing; otherwise nothing is kept.
    """
    path = BUILD / f"{sha}.json"
    known: dict[str, Found] = {}
    if cache and sha is not None and path.is_file():
        stored = json.loads(path.read_text())
        known = stored["runs"] if stored["key"] == key else {}
    if missing := with_needs([run for run in runs if run.name not in known]):
        known = {**known, **work(missing)}
        if cache and sha is not None and still():
            good = {
                name: found for name, found in known.items() if not failures(found)
            }  # what failed may have been the machine
            path.write_text(json.dumps({"key": key, "runs": good}))
    return {run.name: known[run.name] for run in runs}


def with_needs(runs: Sequence[Run]) -> list[Run]:
    needed = {name for run in runs for name in (run.name, *run.needs)}
    return [run for run in RUNS if run.name in needed]


# ---- comparing


def compare(runs: Sequence[Run], before: Mapping[str, Found], now: Mapping[str, Found], ignore: Sequence[str]) -> int:
    """Print one line per run and what differs; the whole table goes to a file. How many differences there are."""
    table, bad = [], 0
    width = max(len(run.name) for run in runs)
    for run in runs:
        one, other = before[run.name], now[run.name]
        wrong = []
        for name in list(dict.fromkeys([*one, *other])):
            verdict = judge(one.get(name), other.get(name))
            if verdict != "equal" and any(fnmatch(name, pattern) for pattern in ignore):
                verdict = "ignored"
            table.append(f"{run.name:<{width}}  {name:<40}  {verdict}")
            if verdict not in ("equal", "ignored"):
                wrong.append((name, verdict, show(one.get(name), other.get(name))))
        if run.same is not None and run.same in now:
            for name in ("last/model.safetensors", "best/model.safetensors", "metrics.json", "predictions.csv", "results.csv"):
                verdict = judge(now[run.same].get(name), other.get(name))
                table.append(f"{run.name:<{width}}  {f'{name} as in {run.same}':<40}  {verdict}")
                if verdict != "equal":
                    wrong.append((f"{name} as in {run.same}", verdict, show(now[run.same].get(name), other.get(name))))
        equal = len(dict.fromkeys([*one, *other])) - len(wrong)
        print(f"{run.name:<{width}}  {equal} equal" + (f", {len(wrong)} DIFFERENT" if wrong else ""))
        for name, verdict, lines in wrong:
            print(f"{'':<{width}}  {name}: {verdict}")
            for line in lines:
                print(f"{'':<{width}}      {line}")
        bad += len(wrong)
    (BUILD / "table.txt").write_text("".join(f"{line}\n" for line in table))
    return bad


def judge(one: Mapping[str, str] | None, other: Mapping[str, str] | None) -> str:
    if one is None or other is None:
        return "DIFFERENT: only in " + ("the working tree" if one is None else "the commit")
    if "code" in one and one["code"] == other.get("code") != "0":
        return "FAILS in both"
    return "equal" if (one.get("sha"), one.get("code")) == (other.get("sha"), other.get("code")) else "DIFFERENT"


def show(one: Mapping[str, str] | None, other: Mapping[str, str] | None) -> list[str]:
    """The first lines that differ, - of the commit, + of the working tree."""
    if one is None or other is None:
        return []
    texts = [entry.get("text") for entry in (one, other)]
    if None in texts:
        return ["(no text: its hashes differ)"]
    if one.get("code", "0") == other.get("code", "1"):
        return (texts[1] or "").splitlines()[-SHOWN:]
    lines = list(difflib.unified_diff(*((text or "").splitlines() for text in texts), lineterm="", n=0))[2:]
    lines = [line if len(line) <= 160 else f"{line[:160]}..." for line in lines if not line.startswith("@@")]
    return [*lines[:SHOWN], *([f"... {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", help="the commit to compare the working tree with")
    parser.add_argument("--only", help="some runs, with commas: " + ", ".join(run.name for run in RUNS))
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--no-cache", action="store_true", help="compute everything, and keep nothing")
    parser.add_argument("--keep", action="store_true", help="keep the runs' folders, in build/regress/runs-*")
    parser.add_argument("--ignore", default="", help="names that may differ, with commas and wildcards, such as report.html")
    parser.add_argument(
        "--all", action="store_true", help="compare words too: config.yaml, reports, cards, what training prints"
    )
    options = parser.parse_args()
    chosen = [run.name for run in RUNS] if options.only is None else options.only.split(",")
    if unknown := set(chosen) - {run.name for run in RUNS}:
        sys.exit(f"regress: no such run: {', '.join(sorted(unknown))}")
    runs = [run for run in RUNS if run.name in chosen or any(other.same == run.name and other.name in chosen for other in RUNS)]
    try:
        sha = git("rev-parse", "--verify", "--quiet", f"{options.ref}^{{commit}}")
    except (ValueError, IndexError):
        sys.exit(f"regress: {options.ref} is no commit of this repository")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit("regress: another comparison is running in this checkout")
        return compare_trees(runs, sha, options)


def compare_trees(runs: Sequence[Run], sha: str, options: argparse.Namespace) -> int:
    scripts = (Path(__file__), *(ROOT / "tests" / "examples" / f"{name}.py" for name in ("images", "text", "volumes")))
    script = hashlib.sha256(b"".join(path.read_bytes() for path in scripts)).hexdigest()
    key = " ".join([script, sys.version.split()[0], *(f"{name}-{version(name)}" for name in ("torch", "numpy", "pillow"))])
    stamp = BUILD / "data" / "stamp"
    if not stamp.is_file() or stamp.read_text() != key:
        shutil.rmtree(BUILD / "data", ignore_errors=True)
        write_data(BUILD / "data")
        stamp.write_text(key)
    how = {"jobs": max(1, options.jobs), "keep": options.keep}

    def compute_commit(missing: Sequence[Run]) -> dict[str, Found]:
        with checked_out(sha) as tree:
            return compute_all(missing, tree, sha[:9], **how)

    before = results_of(sha, runs, key, compute_commit, cache=not options.no_cache)
    clean = clean_commit()
    now = results_of(
        clean,
        runs,
        key,
        lambda missing: compute_all(missing, ROOT, "tree", **how),
        cache=not options.no_cache,
        still=lambda: clean_commit() == clean,
    )
    print()
    bad = compare(runs, before, now, [*(() if options.all else WORDS), *(name for name in options.ignore.split(",") if name)])
    print(f"\nregress: {f'{bad} DIFFERENT' if bad else 'all equal'}; the whole table is in build/regress/table.txt")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
