"""`kill -9` at moments nobody chooses, two loader workers and mixup on: the run that goes on ends with the same weights."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process that has torch loaded")
# 96 images in batches of 8: 12 steps an epoch, 96 in all, a checkpoint every five or so. The parent keeps torch loaded and
# idle; each child goes on with the run until it is killed.
DRIVER = textwrap.dedent("""
    import json, mmap, os, random, signal, struct, sys, time
    import vitrail as vt
    from vitrail.data import image_source
    from vitrail.data.loader import Loader
    from vitrail.report import frame
    from vitrail.learn.training import loop
    from vitrail.learn.training.state import latest_state, read_progress
    from pathlib import Path

    data, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    where = mmap.mmap(-1, 16)
    loop.SECONDS_BETWEEN_CHECKPOINTS = 0.1
    frame.write_page = lambda path, *_, **__: path.write_text("")

    class Reporting(Loader):
        def batches(self, epoch=0, start=0):
            for number, batch in enumerate(super().batches(epoch, start), start=start):
                if self.order.shuffle:
                    where[:16] = struct.pack("qq", epoch, number)
                yield batch

    image_source.Loader = Reporting

    def run(out, **more):
        vt.train(data=data, model="vit_nano_conv", batch=8, epochs=8, seed=3, mixup=0.4, drop_path=0.3, ema=0.9, out=out,
                 quiet=True, **more)

    def child(out, **more):
        pid = os.fork()
        if not pid:
            try:
                os.setsid()
                run(out, **more)
                os._exit(0)
            except BaseException as error:
                print(json.dumps({"error": repr(error)}), flush=True)
                os._exit(1)
        return pid

    assert os.waitpid(child(folder / "whole", workers=0), 0)[1] == 0
    draw = random.Random(int(sys.argv[4]))
    done = number = 0
    while done < kills:
        out = folder / f"killed-{number}"
        while done < kills:
            where[:16] = struct.pack("qq", -1, -1)
            pid = child(out, workers=2, resume=True)
            ended = (0, 0)
            while struct.unpack("qq", where[:16])[0] < 0 and not ended[0]:  # until it takes steps
                time.sleep(0.005)
                ended = os.waitpid(pid, os.WNOHANG)
            if ended[0]:  # killed after its last step, it had none left to take
                assert ended[1] == 0
                break
            time.sleep(draw.uniform(0.0, 0.6))
            epoch, batch = struct.unpack("qq", where[:16])
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if os.waitpid(pid, 0)[1] != signal.SIGKILL:
                break  # it was finished
            kept = read_progress(latest_state(out / "state"))
            moment = {"epoch": epoch, "batch": batch, "kept_epoch": kept.epoch, "kept_batch": kept.batch, "step": kept.step}
            print(json.dumps(moment), flush=True)
            done += 1
        number += 1
    for each in range(number):
        out = folder / f"killed-{each}"
        assert os.waitpid(child(out, resume=True, **({"workers": 2} if not (out / "config.yaml").exists() else {})), 0)[1] == 0
""")


def kill_and_go_on(arrays, environment, folder, kills, seed):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(arrays), str(folder), str(kills), str(seed)],
        env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-2000:])
    moments = [json.loads(line) for line in done.stdout.splitlines()]
    for moment in moments:
        print(
            "killed in epoch {epoch}, batch {batch}; the checkpoint was at epoch {kept_epoch}, batch {kept_batch}".format(
                **moment
            )
        )
    assert len(moments) == kills
    between = [m for m in moments if m["batch"] > 0 and (m["epoch"], m["batch"]) != (m["kept_epoch"], m["kept_batch"])]
    assert len(between) >= kills / 2, "at least half in mid-epoch, between checkpoints"
    expected = digest(folder / "whole")
    runs = sorted(folder.glob("killed-*"))
    assert runs
    assert {digest(run) for run in runs} == {expected}


def digest(run: Path) -> str:
    names = ("best/model.safetensors", "last/model.safetensors", "metrics.json", "predictions.csv")
    return hashlib.sha256(b"".join((run / name).read_bytes() for name in names)).hexdigest()


@pytest.mark.slow
def test_six_kills_change_nothing(arrays, environment, tmp_path):
    kill_and_go_on(arrays, environment, tmp_path, 6, seed=1)


@pytest.mark.slow
def test_fifty_kills_change_nothing(arrays, environment, tmp_path):
    kill_and_go_on(arrays, environment, tmp_path, 50, seed=2)
