"""Weights from a hub: a stand-in on 127.0.0.1, whole commands in processes of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml
from hub_server import serve_hub
from PIL import Image

import vitrail as vt
from vitrail.models.convert.writing import write_foreign

ID = "owner/tiny"
SIZE = 48


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small model as timm stores it, under a license that restricts use."""
    folder = tmp_path_factory.mktemp("timm")
    torch.manual_seed(0)
    write_foreign(vt.create_model("vit_tiny_patch16_224", width=32, depth=2, heads=2, image_size=SIZE), folder, style="timm")
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found | {"README.md": b"---\nlicense: cc-by-nc-4.0\n---\n# A tiny model\n", "notes.md": b"nobody asks for this"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / label).mkdir()
        for number in range(10):
            pixels = generator.integers(0, 256, (60, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture
def hub(files):
    with serve_hub() as found:
        found.repositories[ID] = dict(files)
        yield found


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def words(photos, out, *more):
    return ("train", "--data", photos, "--epochs", "1", "--device", "cpu", "--workers", "0", "--out", out, *more)


def flat(text):
    """Columns and wrapped lines as plain text."""
    return " ".join(text.split())


def test_the_first_run_downloads_the_second_is_offline_and_a_resumed_one_too(hub, home, photos, tmp_path):
    commit = hub.commit(ID)
    first = hub.vitrail(home, *words(photos, tmp_path / "first", "--pretrained", ID))
    assert first.returncode == 0, first.stderr
    assert f"weights {ID}@{commit} (license cc-by-nc-4.0, which restricts use)" in flat(first.stdout)
    assert flat(first.stdout).count(f" {ID}@{commit} (") == 1
    assert "downloading owner/tiny: model.safetensors" in first.stderr
    assert ": 100 %" in first.stderr
    assert hub.downloads() == 1
    assert hub.downloads("notes.md") == 0, "only what is needed"
    config = yaml.safe_load((tmp_path / "first" / "config.yaml").read_text())
    (blob,) = [path for path in (home / "hub").rglob("blobs/*") if len(path.name) == 64]
    assert (config["weights"], config["weights_sha256"]) == (f"{ID}@{commit}", blob.name)
    assert "pretrained" not in config
    card = (tmp_path / "first" / "best" / "README.md").read_text()
    assert f"Started from {ID}@{commit} (license cc-by-nc-4.0, which restricts use, SHA-256 {blob.name})" in card

    hub.requests.clear()
    second = hub.vitrail(home, *words(photos, tmp_path / "second", "--weights", ID, "--offline"))
    assert second.returncode == 0, second.stderr
    assert hub.requests == []
    weights = [(tmp_path / name / "last" / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]

    hub.repositories[ID]["README.md"] += b"news"  # another commit is main now
    (tmp_path / "third").mkdir()
    shutil.copy(tmp_path / "first" / "config.yaml", tmp_path / "third")
    third = hub.vitrail(home, *words(photos, tmp_path / "third", "--pretrained", ID, "--resume"))
    assert third.returncode == 0, third.stderr
    assert hub.requests == [], "a resumed run asks nobody"
    assert (tmp_path / "third" / "last" / "model.safetensors").read_bytes() == weights[0]

    (tmp_path / "fourth").mkdir()
    changed = (tmp_path / "first" / "config.yaml").read_text().replace(blob.name, "f" * 64)
    (tmp_path / "fourth" / "config.yaml").write_text(changed)
    fourth = hub.vitrail(home, *words(photos, tmp_path / "fourth", "--resume"))
    assert fourth.returncode == 2
    assert f"SHA-256 {blob.name[:16]}, expected ffffffffffffffff: these are other weights" in fourth.stderr


@pytest.mark.parametrize(
    "fault, reason",
    [
        ("broken", r"the download of model.safetensors broke off (Consistency check failed"),
        ("wrong", r"the download of model.safetensors has SHA-256"),
        ("stalled", r"the download of model.safetensors stopped: no byte from 127.0.0.1"),
    ],
)
def test_a_download_that_fails_is_one_line_and_leaves_nothing(fault, reason, hub, home, tmp_path):
    hub.fault = fault
    done = hub.vitrail(home, "import", ID, "--out", tmp_path / "model", HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("downloading ")]
    assert line.startswith(f'vitrail: "{ID}": {reason}')
    assert not [path for path in (home / "hub").rglob("*") if len(path.name) == 64], "no blob of it"
    assert not (tmp_path / "model").exists()
    if fault == "wrong":
        hub.fault = ""
        assert hub.vitrail(home, "import", ID, "--out", tmp_path / "model").returncode == 0


def test_no_permission_to_write_is_one_line(hub, tmp_path):
    home = Path("/sys/kernel/vitrail") if os.geteuid() == 0 else tmp_path / "locked"
    if home.parent == tmp_path:
        home.mkdir(mode=0o500)
    elif os.access("/sys/kernel", os.W_OK) and not Path("/sys/kernel").is_dir():
        pytest.skip("no folder here that nobody may write")
    (tmp_path / "work").mkdir()
    done = hub.vitrail(tmp_path / "work", "import", ID, "--out", tmp_path / "model", HF_HOME=str(home))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no permission to write the cache of the hub" in line
    assert line.endswith("set HF_HOME to a folder of yours")


DOWNLOAD = """
from vitrail.errors import VitrailError
from vitrail.models.reading.hub import download
try:
    print(download("owner/tiny", {patterns}, revision={revision!r}))
except VitrailError as error:
    print("error:", error)
"""


def download(hub, home, *patterns, revision=None):
    """What a process prints that downloads these files, in one line."""
    code = DOWNLOAD.format(patterns=patterns or ("model.safetensors",), revision=revision)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=hub.environment(home), capture_output=True, text=True, timeout=60, cwd=home, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return line


@pytest.mark.parametrize("fault, reason", [("busy", "503"), ("silent", "did not answer within 5 s")])
def test_while_a_hub_is_out_of_order_the_cache_is_read_of_an_adapter_too(fault, reason, hub, home):
    hub.repositories[ID] |= {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"}
    hub.fault = fault
    assert reason in download(hub, home)
    hub.fault = ""
    adapter = ("adapter_config.json", "adapter_model.safetensors")
    found = download(hub, home, *adapter)
    assert found.endswith(f"snapshots/{hub.commit(ID)}")
    assert hub.downloads("adapter_model.safetensors") == 1
    assert not hub.downloads()
    hub.requests.clear()
    assert download(hub, home, *adapter, revision=hub.commit(ID)) == found
    assert hub.requests == [], "a commit never changes"
    hub.fault = fault
    assert download(hub, home, *adapter) == found
    assert reason in download(hub, home), "of the model itself the cache has nothing"


def test_what_a_hub_says_never_leads_out_of_the_cache(hub, home):
    own = home / "own"
    own.write_text("not a file of the cache")
    hub.etag = "../../../own"  # where the client would keep what it downloads
    assert "SHA-256" in download(hub, home)
    assert own.read_text() == "not a file of the cache"
    assert not list((home / "hub").rglob("model.safetensors"))
    hub.etag, hub.sha = "", "../../own"
    assert "is out of reach (no commit: '../../own')" in download(hub, home)
    hub.sha = ""
    hub.requests.clear()
    assert "../../own is no revision" in download(hub, home, revision="../../own")
    assert hub.requests == []


CHOOSE = """
import itertools
from vitrail.models.pretrained import Recommended
from vitrail.tasks.weights import Wanted, choose_weights
row = Recommended(name="vit_nano_conv", source="owner/tiny", license="cc-by-4.0", data="x", automatic=True)
wanted = Wanted(images=9, size=(32, 32), fixed=True, classes=2, minutes=1.0)
import pathlib
print(choose_weights(wanted, root=pathlib.Path("none"), clock=itertools.count(0.0, {seconds}).__next__, table=(row,)))
"""


def choose(hub, home, seconds=0.01, **more):
    command = [sys.executable, "-c", CHOOSE.format(seconds=seconds)]
    done = subprocess.run(command, env=hub.environment(home, **more), capture_output=True, text=True, timeout=120, cwd=home)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_choice_takes_the_hub_then_the_cache(hub, home):
    own = Path(home) / "own"
    torch.manual_seed(0)
    vt.save(vt.create_model("vit_nano_conv"), own)
    hub.repositories[ID] = {path.name: path.read_bytes() for path in own.iterdir()}
    commit = hub.commit(ID)
    assert "too slow here for 3 epochs in 1 minute" in choose(hub, home, seconds=1000.0)
    assert hub.downloads() == 0, "what is too slow is not downloaded"
    assert f"weights: {ID}@{commit} (from 127.0.0.1" in choose(hub, home)
    hub.requests.clear()
    assert f"weights: {ID}@{commit} (in the local cache" in choose(hub, home)
    assert hub.requests == []
    (blob,) = [path for path in (home / "hub").rglob("blobs/*") if len(path.name) == 64]
    blob.write_bytes(blob.read_bytes()[:-1])  # damaged on the disk: removed, and downloaded again
    assert f"weights: {ID}@{commit} (from 127.0.0.1" in choose(hub, home)


def test_a_hub_that_is_silent_is_left_after_five_seconds(hub, home):
    hub.fault = "silent"
    assert "did not answer within 5 s" in choose(hub, home)
    assert len(hub.requests) == 1
    hub.requests.clear()
    assert "no server asked" in choose(hub, home, HF_HUB_OFFLINE="1")
    assert hub.requests == []


def test_repositories_that_cannot_be_had(hub, home, tmp_path):
    hub.gated.add("owner/gated")
    hub.repositories["owner/gated"] = {}
    done = hub.vitrail(home, "import", "owner/gated", "--out", tmp_path / "model")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"accept its terms at {hub.address}/owner/gated" in line


@pytest.mark.slow
def test_a_change_of_the_weights_is_another_commit(hub, home, tmp_path):
    """A commit that is named is read as it is, whatever main has become."""
    assert hub.vitrail(home, "import", ID, "--out", tmp_path / "a").returncode == 0
    commit = hub.commit(ID)
    tensors = safetensors.torch.load(hub.repositories[ID]["model.safetensors"])
    hub.repositories[ID]["model.safetensors"] = safetensors.torch.save({name: tensor + 1 for name, tensor in tensors.items()})
    hub.requests.clear()
    assert hub.vitrail(home, "import", f"{ID}@{commit}", "--out", tmp_path / "b").returncode == 0
    assert hub.requests == [], "a commit never changes: the cache is enough"
    assert hub.vitrail(home, "import", ID, "--out", tmp_path / "c").returncode == 0
    first, second, third = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == second != third


@pytest.mark.slow
def test_two_processes_download_once(hub, home, photos, tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vitrail"]
    command = [*launcher, *map(str, words(photos, tmp_path / "run", "--weights", ID))]
    done = subprocess.run(command, env=hub.environment(home), capture_output=True, text=True, timeout=300, cwd=home)
    assert done.returncode == 0, done.stderr[-2000:]
    assert hub.downloads() == 1
    assert sum("/api/models/" in line and "/tree/" not in line for line in hub.requests) == 1, "the second asks nobody"
    assert done.stdout.count(", which restricts use)") == 1


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """This library, installed with weights of its own that nobody has trained."""
    from vitrail.models.pretrained import pack_weights

    folder = tmp_path_factory.mktemp("package")
    source = Path(vt.__file__).parent
    left_out = shutil.ignore_patterns("__pycache__", "vitrail_small.v*")
    shutil.copytree(source, folder / "vitrail", copy_function=os.symlink, ignore=left_out)
    torch.manual_seed(0)
    model = vt.create_model("vitrail_small", num_classes=2)
    vt.save(model, folder / "run" / "best")
    pack_weights(folder / "run", folder / "vitrail" / "models" / "weights" / "vitrail_small.v1")
    return folder


def test_package_weights_need_no_network(hub, home, package, photos, tmp_path):
    more = {"PYTHONPATH": str(package), "HF_HUB_OFFLINE": "1"}
    found = hub.vitrail(home, *words(photos, tmp_path / "auto", "--freeze", "encoder", "--pretrained", "auto"), **more)
    assert found.returncode == 0, found.stderr
    assert "weights vitrail_small.v1 (in the package; nothing in the local cache, no server asked); --pretrained none" in flat(
        found.stdout
    )
    assert "weights:" not in found.stdout, "said once, in the block"
    config = yaml.safe_load((tmp_path / "auto" / "config.yaml").read_text())
    sums = dict(reversed(line.split()) for line in (package / "vitrail/models/weights/vitrail_small.v1/SHA256SUMS").open())
    assert (config["weights"], config["weights_sha256"]) == ("vitrail_small.v1", sums["model.safetensors"])
    assert config["image_size"] == [64, 64], "as the photographs are"
    assert hub.requests == []
    assert "Started from vitrail_small.v1 (in the package, SHA-256" in (tmp_path / "auto" / "best" / "README.md").read_text()
    named = hub.vitrail(home, *words(photos, tmp_path / "named", "--freeze", "encoder", "--model", "vitrail_small.v1"), **more)
    assert named.returncode == 0, named.stderr
    one, other = ((tmp_path / name / "last" / "model.safetensors").read_bytes() for name in ("auto", "named"))
    assert one == other


@pytest.mark.slow
def test_package_weights_in_python(hub, home, package):
    code = """
import vitrail as vt
a, b = (vt.create_model(name, pretrained=True, image_size=64, num_classes=5) for name in ("vitrail_small", "vitrail_small.v1"))
c = vt.create_model("vitrail_small", pretrained="v1")
print(a.image_size, a.num_classes, c.num_classes, a.training, next(a.parameters()).dtype)
assert all((x == y).all() for (n, x), y in zip(a.state_dict().items(), b.state_dict().values()) if "head" not in n and "classifier" not in n)
"""
    environment = hub.environment(home, PYTHONPATH=str(package), HF_HUB_OFFLINE="1")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, cwd=home, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["(64,", "64)", "5", "2", "True", "torch.float32"]
